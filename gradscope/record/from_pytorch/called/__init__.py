"""Calls of the program: which made a node, when each began and ended, which wrote in place."""
