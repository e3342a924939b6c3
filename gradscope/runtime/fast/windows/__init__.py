"""Compiled kernels of windows over images: convolutions, pooling, resampling."""
