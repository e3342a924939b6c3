"""Further schedulers of learning rates."""
