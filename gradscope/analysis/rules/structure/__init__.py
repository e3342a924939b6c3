"""Rules about how the program is composed: losses, dims, shapes and dtypes."""
