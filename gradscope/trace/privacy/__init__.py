"""What is kept out of a trace, and how a trace is made safe to share."""
