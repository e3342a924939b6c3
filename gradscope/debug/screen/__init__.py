"""The debugger on a whole screen: a `Walk`, what is around it, and a line for commands. Textual."""
