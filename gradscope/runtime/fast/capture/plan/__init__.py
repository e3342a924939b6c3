"""Plans: the calls of a step as one function over arrays."""
