"""What stands in for parts of a program while it is watched, and how its objects are held."""
