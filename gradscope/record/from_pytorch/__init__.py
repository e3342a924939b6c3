"""Real PyTorch, as an engine that can be recorded: from what `watch` tells to rows of a trace."""
