"""What acts say of numbers: how far steps go, and what is not finite."""
