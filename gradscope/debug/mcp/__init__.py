"""Answers about finished traces for programs, by the Model Context Protocol; it only reads."""
