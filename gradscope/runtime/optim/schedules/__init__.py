"""The kinds of schedulers of learning rates."""
