"""Factorisations that NumPy does not offer."""
