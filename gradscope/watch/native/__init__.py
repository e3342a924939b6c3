"""The graph, found by reading the memory of PyTorch; uncertain cases are left to Python."""
