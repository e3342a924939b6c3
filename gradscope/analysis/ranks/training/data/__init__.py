"""The data that ranks train on: their batches, samples, parts of it, and random numbers."""
