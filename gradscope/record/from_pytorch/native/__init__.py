"""What is noted natively of PyTorch: nodes as they are made, and rows of graphs found natively."""
