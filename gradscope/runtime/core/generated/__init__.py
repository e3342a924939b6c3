"""Generated functions: compiled at their first call, and shown like any other."""
