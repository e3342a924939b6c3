"""Runs a script in the same way as `python`, with the runtime as its `torch`."""
