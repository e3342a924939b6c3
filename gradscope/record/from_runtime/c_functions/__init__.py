"""Recording the runtime with C functions."""
