"""Calls of the program: which created a node, when each began and ended, which wrote in place."""
