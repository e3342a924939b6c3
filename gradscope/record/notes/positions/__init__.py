"""Where each thread of the program is: its modules, phases, spans and steps."""
