"""Measures the values of tensors in machine code, while PyTorch works with them."""
