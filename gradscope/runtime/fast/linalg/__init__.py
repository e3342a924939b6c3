"""Compiled kernels of linear algebra."""
