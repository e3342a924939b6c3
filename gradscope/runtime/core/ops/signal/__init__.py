"""Rows of signals and images: Fourier transforms, spectrograms, resizing."""
