"""Memory of tensors: storages, and how they are shared."""
