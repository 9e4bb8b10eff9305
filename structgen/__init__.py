"""structgen: structured generation on its own inference core."""
