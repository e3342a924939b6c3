"""What a step does with arrays, noted while it runs."""
