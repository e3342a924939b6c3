"""The forward graph: calls, their inputs, and the calls that created these."""
