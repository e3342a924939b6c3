"""Kernels: functions of arrays, in NumPy, on which operations are built."""
