"""The text of each view of a trace: one file for each."""
