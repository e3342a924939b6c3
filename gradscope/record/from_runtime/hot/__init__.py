"""What is noted for every call and every run, while the program waits."""
