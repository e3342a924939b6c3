"""Producers: something runs, a trace comes out."""
