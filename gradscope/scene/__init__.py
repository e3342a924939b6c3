"""Turns facts into what to draw: boxes, rows, spans and their roles; no colours, no format."""
