"""Autograd: the engine, hooks, custom functions, forward mode and modes."""
