"""What an audit of several ranks is made from."""
