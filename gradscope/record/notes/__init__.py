"""Parts shared by all sources: lists of numbers, source lines, thread positions, modules."""
