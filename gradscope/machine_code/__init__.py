"""A very small compiler for functions over 64-bit integers, independent of any engine."""
