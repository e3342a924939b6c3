"""Facts about a run that are derived from the source of the program."""
