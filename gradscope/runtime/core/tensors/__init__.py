"""Tensors: the class, its memory, views, and factories."""
