"""Rows of layers: normalizations, attention, recurrence, dropout, softmax."""
