"""The language of breakpoints, and the moments of a trace that they match."""
