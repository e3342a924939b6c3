"""Traces of processes that train together: merging them, and extracting a rank."""
