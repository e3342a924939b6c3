"""Observes what machine code observes elsewhere, with PyTorch's public API only."""
