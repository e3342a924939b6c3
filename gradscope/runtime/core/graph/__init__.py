"""What a backward graph is made of: nodes, how they are made, the gradients they gather."""
