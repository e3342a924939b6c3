"""Recording of every call and every run, while the program waits."""
