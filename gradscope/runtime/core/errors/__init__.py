"""Errors with PyTorch's messages."""
