"""Places at which a recorded program can be stopped, and what is known there."""
