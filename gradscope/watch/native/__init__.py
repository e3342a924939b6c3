"""The graph, found by reading PyTorch's own memory; what is not certain there is left to Python."""
