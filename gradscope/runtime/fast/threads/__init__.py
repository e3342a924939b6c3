"""Threads that share the work of kernels on large arrays."""
