"""Functions users attach to tensors, to nodes, and to what is saved."""
