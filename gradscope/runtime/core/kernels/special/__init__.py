"""Special functions of mathematics."""
