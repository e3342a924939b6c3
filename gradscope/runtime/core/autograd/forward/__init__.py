"""Derivatives that travel forward with the values."""
