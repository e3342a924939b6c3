"""Captured steps before the eyes of a recording: each replay becomes the rows of the step."""
