"""The recorded process as a whole: how it ends, which processes it starts, what interrupts it."""
