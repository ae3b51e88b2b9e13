"""The operations of models/ops.py, faster; table.py chooses. Nothing here is needed to understand
GPT-1."""
