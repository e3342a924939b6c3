"""Rows written in full: once per object, and for special cases."""
