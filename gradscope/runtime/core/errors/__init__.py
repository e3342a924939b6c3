"""What is said of what cannot be done, in PyTorch's words."""
