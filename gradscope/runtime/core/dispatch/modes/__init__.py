"""`__torch_dispatch__`: modes that see operations below autograd."""
