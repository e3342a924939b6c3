"""When things ran, for how long, and what they waited for."""
