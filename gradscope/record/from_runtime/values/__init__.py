"""Level `values`: what is noted of the numbers in tensors and gradients."""
