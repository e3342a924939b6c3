"""Functions that are written as text: compiled at their first call, and shown like any other."""
