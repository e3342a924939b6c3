"""Child processes of a recorded process: they are listed, and ranks record themselves."""
