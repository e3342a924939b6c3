"""Dtypes: their limits, names and promotion."""
