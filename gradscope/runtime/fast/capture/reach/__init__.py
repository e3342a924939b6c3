"""What a step may read of the program, and whether it is unchanged."""
