"""Which PyTorch this runtime follows."""

from __future__ import annotations

__version__ = "2.13.0+gradscope"
cuda = None
hip = None
debug = False
git_version = "gradscope"
