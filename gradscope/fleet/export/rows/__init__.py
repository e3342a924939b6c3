"""The rows of a trace, as the tables of a fleet have them."""
