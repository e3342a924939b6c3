"""Answers of `inspect` about one thing, put into words."""
