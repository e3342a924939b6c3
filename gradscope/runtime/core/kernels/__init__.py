"""Arrays in, arrays out: the arithmetic below the operations, in NumPy."""
