"""What the page shows: a trace as columns of numbers and texts, without an object for each node."""
