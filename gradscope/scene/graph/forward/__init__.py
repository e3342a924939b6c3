"""The picture of a forward graph: data at the top, results below."""
