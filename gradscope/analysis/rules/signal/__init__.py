"""Rules about gradients, activations and updates: whether anything can be learned."""
