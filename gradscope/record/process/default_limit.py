"""The largest trace that a recording writes, unless it was asked for another limit."""

MOST_BYTES = 256_000_000
