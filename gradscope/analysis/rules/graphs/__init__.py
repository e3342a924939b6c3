"""Rules about graphs that stay alive, are retained, or are traversed again."""
