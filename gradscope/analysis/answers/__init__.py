"""Answers to the questions of `inspect`: history of a gradient, memory, order, hooks."""
