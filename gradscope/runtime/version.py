"""The PyTorch version that this runtime follows."""

from __future__ import annotations

from gradscope.runtime.torch_version import TorchVersion

__version__ = TorchVersion("2.13.0+gradscope")
cuda = None
hip = None
debug = False
git_version = "gradscope"
