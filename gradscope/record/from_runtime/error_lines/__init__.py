"""Adds the program's lines to an engine error while the program runs."""
