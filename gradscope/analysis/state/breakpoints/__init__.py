"""At which moments to stop: a small language, and what each of its words finds in a trace."""
