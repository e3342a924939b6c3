"""Factorizations that NumPy lacks."""
