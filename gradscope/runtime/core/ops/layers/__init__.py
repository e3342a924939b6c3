"""Rows of layers: normalizations, attention, recurrent layers, dropout, softmax."""
