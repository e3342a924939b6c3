"""Level `values`: statistics of the values of tensors and gradients."""
