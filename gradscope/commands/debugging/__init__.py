"""Debuggers of a trace: in the terminal, and for editors."""
