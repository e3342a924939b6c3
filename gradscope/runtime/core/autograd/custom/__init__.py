"""`autograd.Function`: operations that users write themselves."""
