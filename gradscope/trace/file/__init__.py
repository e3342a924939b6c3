"""Trace files: lines, columns, compression and the index; writing and scanning."""
