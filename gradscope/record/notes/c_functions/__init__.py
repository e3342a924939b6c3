"""Noting by C functions; see Note [Numbers without objects] in functions.py."""

OURS = -2
"""In place of a site: a frame of gradscope's own, whose caller is the one to name."""
