"""Rows of linear algebra on matrices: factorizations, solutions, inverses, norms."""
