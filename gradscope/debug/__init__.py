"""The debugger: walk through a trace, forwards and backwards in time."""
