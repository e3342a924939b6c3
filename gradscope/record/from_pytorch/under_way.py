"""Whether somebody watches PyTorch in this process."""

from __future__ import annotations


class UnderWay:
    """A recording of PyTorch."""

    now = False
