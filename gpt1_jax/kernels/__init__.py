"""GPU kernels of our own, each beside a plain reference that runs everywhere."""
