"""Hooks of the program's, by what they are registered on; each is told as it is called."""
