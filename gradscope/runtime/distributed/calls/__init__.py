"""The functions that scripts call to exchange tensors and objects."""
