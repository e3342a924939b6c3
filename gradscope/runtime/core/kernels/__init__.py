"""Arrays in, arrays out: the arithmetic below the operations, and the only home of Numba."""
