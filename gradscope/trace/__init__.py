"""Traces: the data that recorders write and that analysis and all views read."""
