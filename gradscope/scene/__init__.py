"""Facts → what to draw: boxes, rows, spans and their roles; no colours, no text format."""
