"""Threads among which large arrays are parted."""
