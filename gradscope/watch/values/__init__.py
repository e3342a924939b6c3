"""What tensors hold, measured in machine code while PyTorch works with them."""
