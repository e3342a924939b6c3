"""Tensors that nodes save for backward."""
