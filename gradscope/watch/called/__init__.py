"""Calls of PyTorch's as they happen: names, times, and what they return."""
