"""Rules about gradients, activations and updates: whether the model can learn."""
