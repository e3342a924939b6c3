"""Options of commands: those that several share, and long lists."""
