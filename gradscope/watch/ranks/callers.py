"""Which part of PyTorch calls a collective, and for which parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

CALLERS = {
    "torch.distributed.fsdp": "FSDP",
    "torch.distributed._composable.fsdp": "FSDP",
    "torch.distributed._composable.replicate": "replicate",
    "torch.distributed.tensor": "DTensor",
    "torch.distributed._tensor": "DTensor",
    "torch.distributed.optim": "ZeroRedundancyOptimizer",
    "torch.distributed.pipelining": "pipeline",
    "torch.distributed.algorithms.ddp_comm_hooks": "communication hook",
    "torch.distributed.algorithms": "Join",
    "torch.distributed.checkpoint": "checkpoint",
    "torch.nn.parallel": "DistributedDataParallel",
    "torch.nn.modules": "SyncBatchNorm",
    "torch.distributed.nn": "",
    "torch.distributed": "",
}
"""By the module that calls; "": it calls for the one that called it. The longest name counts."""

FURTHEST = 12
"""Number of frames that are looked at."""

LISTED, UNIT, HANDLE, FLAT = "fsdp_params", "sharded_param", "handle", "flat_param"


def caller_of(frame: FrameType | None) -> str:
    """The part of PyTorch that called; "": the program itself."""
    for _ in range(FURTHEST):
        if frame is None:
            return ""
        home = str(frame.f_globals.get("__name__", ""))
        if not home.startswith("torch."):
            return ""
        found = _named(home)
        if found:
            return found
        frame = frame.f_back
    return ""


def _named(home: str) -> str:
    while home not in CALLERS:
        home, dot, _ = home.rpartition(".")
        if not dot:
            return ""
    return CALLERS[home]


def unit_of(frame: FrameType | None) -> list[Any]:
    """The parameters of the unit for which FSDP calls; empty if they are not found."""
    for _ in range(FURTHEST):
        if frame is None or not str(frame.f_globals.get("__name__", "")).startswith("torch."):
            return []
        names = frame.f_code.co_varnames
        if LISTED in names:
            listed = frame.f_locals.get(LISTED) or ()
            return [each for unit in listed if (each := getattr(unit, UNIT, None)) is not None]
        held = HANDLE if HANDLE in names else "self"
        flat = getattr(frame.f_locals.get(held), FLAT, None) if held in names else None
        if flat is not None:
            return [flat]
        frame = frame.f_back
    return []
