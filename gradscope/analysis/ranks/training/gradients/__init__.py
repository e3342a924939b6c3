"""Gradients that ranks computed or combined in another way than the loss says."""
