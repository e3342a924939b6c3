"""Tensors: the class, its memory, its views, and how tensors are made."""
