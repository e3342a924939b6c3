"""`__torch_dispatch__`: operations offered to modes below autograd."""
