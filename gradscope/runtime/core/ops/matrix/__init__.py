"""Rows about single matrices: factorisations, solutions, inverses, norms."""
