"""Rows of activations, smooth and piecewise linear."""
