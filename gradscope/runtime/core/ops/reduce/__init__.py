"""Rows that make fewer numbers of many, or look along a dim: sums, extremes, scans."""
