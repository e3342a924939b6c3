"""Reductions and scans: sums, extremes, sorting."""
