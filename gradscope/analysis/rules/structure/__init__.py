"""Rules about how the program is put together: losses, dims, shapes and dtypes."""
