"""Computes gradients of nodes again, with the runtime's formulas, and compares them."""
