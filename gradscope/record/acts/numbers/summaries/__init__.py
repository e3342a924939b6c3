"""Summaries of steps: loss, gradients, parameters and their updates, also of left-out steps."""
