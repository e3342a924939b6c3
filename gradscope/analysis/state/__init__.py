"""What the engine and the program held at any moment of a trace."""
