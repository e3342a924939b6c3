"""Replaces parts of a program while it is watched, and refers to its objects."""
