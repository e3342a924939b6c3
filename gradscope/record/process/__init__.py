"""What a recorded process does as a whole: how it dies, whom it starts, what interrupts it."""
