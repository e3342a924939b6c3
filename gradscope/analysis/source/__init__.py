"""Mistakes in the source text of a program, found when a trace is read."""
