"""Random numbers from a generator's words."""
