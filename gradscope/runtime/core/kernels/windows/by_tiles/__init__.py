"""Convolutions by register tiles, where images are large enough to compile for."""
