"""The engine: runs a backward from its roots to the leaves."""
