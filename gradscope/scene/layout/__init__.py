"""Positions and sizes of everything in a picture: numbers, no colours."""
