"""The devices for which PyTorch's engine starts threads."""

from __future__ import annotations

import torch


def device_type() -> str:
    """The type of the devices of this process that have threads, like "cuda"."""
    ask = getattr(torch._C, "_get_accelerator", None)
    found = None if ask is None else ask()
    return "cuda" if found is None or found.type == "cpu" else str(found.type)


def task_here() -> int:
    """PyTorch's number of the graph task whose node or hook runs on this thread; -1: none."""
    return int(torch._C._current_graph_task_id())
