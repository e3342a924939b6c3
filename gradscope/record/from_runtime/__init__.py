"""gradscope's own runtime, recorded: from what its probe is told to rows."""
