"""Kernels on whole arrays: activations, sums, scatters, steps of optimizers."""
