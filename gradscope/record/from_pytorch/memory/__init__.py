"""Rows of storages, and of the parts of tensors that this rank holds."""
