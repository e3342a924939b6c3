"""What collectives of the program exchanged, and what it did with that."""
