"""What every source notes with: lists of numbers, source lines, where each thread is, modules."""
