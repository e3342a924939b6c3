"""Rows of sliding windows: convolution, pooling, unfold."""
