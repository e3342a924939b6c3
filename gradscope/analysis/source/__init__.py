"""Mistakes that stand in the text of a program, found when a trace is read."""
