"""Layers: each holds its weights, loads them from a checkpoint by name, and is called with tensors."""
