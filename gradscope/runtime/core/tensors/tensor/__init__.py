"""The class of tensors, by the questions that it answers."""
