"""Observes what processes that train together exchange."""
