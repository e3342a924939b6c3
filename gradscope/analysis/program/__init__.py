"""The modules of the program, and its events (acts)."""
