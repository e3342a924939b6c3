"""Watching starts no thread of the engine: a device may be added until the first backward."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.record.running import House

pytestmark = pytest.mark.torch

PROGRAM = """
import os, torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("late")


class Late(torch.Tensor):
    @staticmethod
    def __new__(cls, raw):
        made = torch._C._acc.create_empty_tensor(tuple(raw.shape), raw.dtype)
        made.__class__ = Late
        return made

    def __init__(self, raw):
        self.raw = raw


def put(name, function):
    torch.library.impl("aten::" + name, "privateuseone")(function)


put("mul.Tensor", lambda a, b: Late(a.raw * getattr(b, "raw", b)))
put("sum", lambda a, *, dtype=None: Late(a.raw.sum()))
put("ones_like", lambda a, **_: Late(torch.ones_like(a.raw)))
put("expand", lambda a, size, *, implicit=False: Late(a.raw.expand(size)))
put("detach", lambda a: Late(a.raw))
x = Late(torch.tensor([1.0, 2.0, 3.0])).requires_grad_()
(x * 2.0).sum().backward()
print(x.grad.raw.tolist())
"""


@pytest.mark.parametrize("level", ["graph", "values", "full"])
def test_a_device_that_is_added_after_the_import_runs_its_backward(
    tmp_path: Path, level: str
) -> None:
    import torch.utils.backend_registration as registration

    if not hasattr(registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("this PyTorch takes no device from Python")
    house = House(tmp_path)
    script = house.write(PROGRAM)
    ran = house.gradscope("trace", "--on", "torch", "--level", level, "-q", str(script))
    assert (ran.code, ran.out) == (0, "[2.0, 2.0, 2.0]\n"), ran.err
