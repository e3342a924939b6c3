"""Native recording of PyTorch: creation of nodes, and rows of graphs found natively."""
