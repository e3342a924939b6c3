"""What of a program does not go into a trace, and how a trace is made safe to give away."""
