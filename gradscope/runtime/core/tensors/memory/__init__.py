"""The bytes below tensors: storages, and who else sees them."""
