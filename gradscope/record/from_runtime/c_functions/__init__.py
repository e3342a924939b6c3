"""Noting what the runtime does by C functions."""
