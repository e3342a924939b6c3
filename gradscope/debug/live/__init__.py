"""The debugger in a program that is running: what it stops at, and the console there."""
