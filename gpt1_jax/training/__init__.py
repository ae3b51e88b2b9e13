"""Sections 3.1 to 4.1: losses, the optimizer, and the training loop; trees of arrays, no files but
the profiler's."""
