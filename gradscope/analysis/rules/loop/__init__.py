"""Rules about a training loop: the order of its calls, modes, and repeated work."""
