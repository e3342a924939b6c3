"""Rows of activations, smooth and with kinks."""
