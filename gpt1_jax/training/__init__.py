"""Sections 3.1 to 4.1: losses, the optimizer, and the training loop.

This package computes with trees of arrays. Only the profiler writes files.
"""
