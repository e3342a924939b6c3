"""Options of commands: those that several take alike, and those that are many."""
