"""Compiled kernels of layers: attention, LSTMs, norms, softmax."""
