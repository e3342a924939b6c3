"""What data a program reads, and what it passes to its models."""
