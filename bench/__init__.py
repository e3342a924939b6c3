"""What is measured, against what, and what it must reach: see README.md."""
