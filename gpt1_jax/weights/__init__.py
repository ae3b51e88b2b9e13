"""Weights of other programs.

Imports the authors' release, and imports and exports Hugging Face directories. Every importer
writes a run (runs/workdir.py), which `--init_from` and gpt1_jax.load open.
"""
