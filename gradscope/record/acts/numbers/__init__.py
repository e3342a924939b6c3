"""Acts about values: sizes of steps, and values that are not finite."""
