"""The laboratory: ideas against a baseline, screened, then confirmed on fresh seeds."""
