"""The processor's own instructions are used by NumPy and Numba, as they see fit."""

from __future__ import annotations


def get_cpu_capability() -> str:
    return "DEFAULT"
