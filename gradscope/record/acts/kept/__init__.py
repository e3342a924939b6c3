"""What a program keeps alive: arguments of functions, and graphs."""
