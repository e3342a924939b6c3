"""Trace → facts: pure functions, frozen results."""
