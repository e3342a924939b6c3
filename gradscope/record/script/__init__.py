"""Running a script as `python` would, with the runtime for its `torch`."""
