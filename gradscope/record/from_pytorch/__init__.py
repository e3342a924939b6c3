"""PyTorch as an engine that can be recorded: converts reports of `watch` to rows of a trace."""
