"""Text in a terminal, a pipe or a file: its width, its characters, its colours."""
