"""Compiled kernels that draw random numbers."""
