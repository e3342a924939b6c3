"""Observes calls of PyTorch: names, times and results."""
