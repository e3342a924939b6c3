"""Laws: computations that must be equal, and the first line at which two of them differ."""
