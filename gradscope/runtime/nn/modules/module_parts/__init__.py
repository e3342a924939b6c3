"""What `Module` is made of: its hooks, its calls, its state, ways through its parts."""
