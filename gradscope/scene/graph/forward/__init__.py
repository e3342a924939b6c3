"""The picture of a forward graph: data on top, and what was computed from it below."""
