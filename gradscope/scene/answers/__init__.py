"""What is said of one thing that `inspect` was asked for."""
