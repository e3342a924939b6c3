"""What the program is made of and what it did: its modules, and its acts."""
