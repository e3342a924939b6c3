"""What a graph is made of, what is folded and what is open."""
