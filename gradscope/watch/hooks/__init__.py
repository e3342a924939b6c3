"""Observes hooks of the program, by the kind of object they are registered on."""
