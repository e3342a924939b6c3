"""What a thread or a process is in the middle of: switches, random numbers, warnings."""
