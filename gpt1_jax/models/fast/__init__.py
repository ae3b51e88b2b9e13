"""Faster versions of the operations of models/ops.py. Nothing here is needed to understand GPT-1.

table.py chooses between them.
"""
