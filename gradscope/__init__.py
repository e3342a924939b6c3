"""gradscope records what an autograd engine does, and shows it."""

__version__ = "0.1.0"
