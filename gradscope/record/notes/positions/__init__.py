"""The position of each thread of the program: its modules, phases, spans and steps."""
