"""Rows that read or write at indices."""
