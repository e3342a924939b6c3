"""The shortest part of a program that still goes wrong in the same way."""

from __future__ import annotations

from collections.abc import Callable

from tests.watched.fuzz.programs import Program


def shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Leave out whole stretches of blocks, then single ones, as long as it `fails`."""
    size = max(1, len(program.blocks) // 2)
    while size:
        at = 0
        while at < len(program.blocks):
            shorter = program.without(range(at, at + size))
            if fails(shorter):
                program = shorter
            else:
                at += size
        size //= 2
    return program
