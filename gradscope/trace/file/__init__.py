"""How a trace lies in a file: lines, columns, compression, the index; written and scanned."""
