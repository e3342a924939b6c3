"""What is written out in full, once per thing or out of the ordinary."""
