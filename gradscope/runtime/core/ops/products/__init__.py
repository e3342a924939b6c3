"""Rows of products of vectors, matrices and tensors."""
