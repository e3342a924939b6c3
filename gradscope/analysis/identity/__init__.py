"""What things are called, and which one is meant: nodes, leaves, lines, backwards, steps."""
