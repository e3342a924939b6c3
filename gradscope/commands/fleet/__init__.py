"""Commands that take the traces of several ranks or runs."""
