"""The backward graph, or a selected part of it, with the runs of each node."""
