"""Weights of other programs: import of the authors' release, import and export of Hugging Face
directories.

Every importer writes a run (runs/workdir.py), which `--init_from` and gpt1_jax.load open.
"""
