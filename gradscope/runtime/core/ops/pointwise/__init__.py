"""Elementwise rows."""
