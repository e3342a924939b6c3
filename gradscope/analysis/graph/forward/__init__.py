"""The forward graph: which calls the program made, what each was given, and who made that."""
