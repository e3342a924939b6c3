"""What an error is told of the lines behind it, while the program still runs."""
