"""Noting by C functions; see Note [Numbers without objects] in functions.py."""
