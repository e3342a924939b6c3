"""Rows that move elements: views, copies, joins, splits, padding."""
