"""The blocks of a graph, and which of them are folded or open."""
