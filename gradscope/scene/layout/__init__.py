"""Where everything in a picture stands, and how large it is: numbers, no colours."""
