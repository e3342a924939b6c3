"""Puts the traces of ranks together, on one clock, and takes them apart again."""
