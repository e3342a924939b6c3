"""Compiled kernels of whole arrays: activations, sums, scatters, steps of optimizers."""
