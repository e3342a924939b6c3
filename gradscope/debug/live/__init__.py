"""The debugger of a running program: breakpoints, and a console."""
