"""Text -> automaton -> token mask. Imports neither torch nor the engine."""
