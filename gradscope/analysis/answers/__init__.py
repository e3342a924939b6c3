"""What `inspect` is asked of one thing: how a gradient came, who holds memory, why this order."""
