"""Rows of losses: how far predictions are from what was wanted."""
