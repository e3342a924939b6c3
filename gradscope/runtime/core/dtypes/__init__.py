"""The kinds of numbers, their limits and names, and how they lie in memory."""
