"""Writes traces into a fleet."""
