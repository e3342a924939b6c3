"""`autograd.Function`: custom functions."""
