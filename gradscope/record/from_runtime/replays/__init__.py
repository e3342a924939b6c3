"""Recording of captured steps: each replay becomes the rows of its step."""
