"""What the source of a program gives away of what it did."""
