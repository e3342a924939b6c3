"""Dispatch of calls: users' operators and kernels, overriding classes, modes."""
