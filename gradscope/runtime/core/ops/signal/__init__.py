"""Rows of signals and pictures: Fourier transforms, spectrograms, pictures of another size."""
