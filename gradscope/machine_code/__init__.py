"""A very small compiler, for functions over 64-bit integers; it knows no engine."""
