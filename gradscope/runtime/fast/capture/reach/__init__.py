"""What a step may read of the program, and whether that is as it was."""
