"""The short road of a call, step by step: forward, its node, its backward."""
