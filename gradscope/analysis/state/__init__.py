"""The state of the engine and the program at any moment of a trace."""
