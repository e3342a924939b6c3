"""`torch.__config__`: versions and thread counts of the runtime."""

from __future__ import annotations

import platform

import numpy as np

from gradscope.runtime.core.state.settings import get_num_interop_threads, get_num_threads
from gradscope.runtime.version import __version__


def show() -> str:
    return (
        f"gradscope's runtime, which follows PyTorch {__version__}\n"
        f"  - Python {platform.python_version()}\n"
        f"  - NumPy {np.__version__}\n"
    )


def parallel_info() -> str:
    return (
        "gradscope's runtime:\n"
        f"\tget_num_threads() : {get_num_threads()}\n"
        f"\tget_num_interop_threads() : {get_num_interop_threads()}\n"
    )
