"""Rules about a training loop: the order of what it does, modes, and what it does again."""
