"""Rows that compute each element by itself."""
