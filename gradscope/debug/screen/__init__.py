"""The debugger on a full screen, with Textual: panels and a command line."""
