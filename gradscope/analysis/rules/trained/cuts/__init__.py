"""Rules about graphs that the program cuts, and what is lost by that."""
