"""The tensor class, split into files by topic."""
