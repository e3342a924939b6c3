"""Reading parts of a trace file: what was added since the last look, or one step."""
