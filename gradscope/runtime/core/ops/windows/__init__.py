"""Rows that slide windows over what they see: convolutions, poolings, unfold."""
