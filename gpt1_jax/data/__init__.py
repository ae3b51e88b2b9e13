"""Data: text in, numpy arrays out. Nothing here imports jax or creates a device array."""
