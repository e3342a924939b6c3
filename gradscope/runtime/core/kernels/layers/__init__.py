"""Kernels of layers: attention, LSTM, normalizations, softmax, CTC."""
