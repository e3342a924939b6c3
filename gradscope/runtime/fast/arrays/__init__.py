"""Compiled kernels on whole arrays: activations, sums, scatters, steps of optimizers."""
