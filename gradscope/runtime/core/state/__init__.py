"""State of threads and processes: switches, random numbers, warnings."""
