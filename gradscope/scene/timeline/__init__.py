"""Backward over time: lanes and rows, the program's own words, the list of events."""
