"""A run in its directory: its training session, lock, checkpoints, metrics, results and
provenance."""
