"""Instruction sets of the processor, which NumPy and Numba choose themselves."""

from __future__ import annotations


def get_cpu_capability() -> str:
    return "DEFAULT"
