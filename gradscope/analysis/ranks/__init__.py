"""Traces of processes that train together: made one, and told apart again."""
