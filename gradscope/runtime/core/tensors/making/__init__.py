"""Tensors made of numbers, lists, arrays and sizes."""
