"""Replays of backwards whose nodes ran on several threads."""
