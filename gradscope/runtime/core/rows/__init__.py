"""What a row of a table says of an operation."""
