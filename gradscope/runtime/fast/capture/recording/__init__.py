"""Recording: what a step does with arrays while it runs."""
