"""Names of nodes, leaves, lines, backwards and steps, and look-up by name."""
