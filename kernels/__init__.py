"""Operations of the engine: one function each, with a reference beside it."""
