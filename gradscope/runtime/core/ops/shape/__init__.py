"""Rows that move elements and change none: views, copies, joins, splits, edges."""
