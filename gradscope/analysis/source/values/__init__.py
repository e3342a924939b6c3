"""Searches for lines that create or convert the values of tensors."""
