"""A run in its directory: the session that trains it, its lock, checkpoints, metrics, results and
provenance."""
