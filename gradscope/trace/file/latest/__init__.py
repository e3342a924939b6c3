"""A trace of limited size that keeps its latest steps: see Note [Latest steps] in ring.py."""
