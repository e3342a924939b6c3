"""Rows: the declarations of operations in tables."""
