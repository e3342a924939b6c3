"""What machine code knows of PyTorch's versions: a wrong row is noticed before it is used."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from gradscope.analysis.likeness import likeness
from gradscope.trace.schema import NodeBegin
from tests.record.from_pytorch.watching import recorded
from tests.record.running import House

pytestmark = pytest.mark.torch

PROGRAM = """
import torch

torch.__version__ = "{version}"

from gradscope.record.from_pytorch.pytorch_engine import PyTorch
from gradscope.record.recording import Options, Recording
from gradscope.trace.schema import Node
from gradscope.trace.writer import MemoryWriter

x = torch.ones(3, requires_grad=True)
with Recording(MemoryWriter(), Options(level="values"), PyTorch()) as recording:
    watcher = recording.session.source.watcher
    x.exp().sum().backward()
nodes = len(recording.trace().table(Node))
print(bool(watcher.why_walked), nodes, x.grad.tolist() == x.exp().tolist())
"""


def here() -> tuple[int, ...]:
    import torch

    return tuple(map(int, torch.__version__.split(".")[:2]))


@pytest.mark.parametrize(
    ("version", "is_another"),
    [
        ("9.9.0", lambda now: now < (2, 14)),  # no row: the newest one
        ("2.12.1", lambda now: now >= (2, 13)),  # another owner of nodes
        ("2.13.0", lambda now: now < (2, 13) or now >= (2, 14)),
        ("2.14.0", lambda now: now < (2, 14)),  # another function of the engine
    ],
)
def test_the_row_of_another_version_is_not_used(
    tmp_path: Path, version: str, is_another: Any
) -> None:
    house = House(tmp_path)
    ran = house.python(str(house.write(PROGRAM.format(version=version))))
    assert (ran.code, ran.out) == (0, f"{is_another(here())} 3 True\n"), ran.err


def test_each_row_and_no_row_is_compared_several_times_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gradscope.watch.native import versions
    from gradscope.watch.unseen import UnknownBuildError

    for is_known, answers, wanted in (
        (True, [1, 2, 2], 1),
        (False, [1, 1, 1], 1),
        (False, [1, 1, 2], None),
    ):
        monkeypatch.setattr(versions, "IS_KNOWN", is_known)
        look = iter(answers)
        if wanted is None:
            with pytest.raises(UnknownBuildError):
                versions.certain(lambda look=look: next(look))
        else:
            assert versions.certain(lambda look=look: next(look)) == wanted


def test_texts_of_older_builds_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """In these, the number of characters is stored before them."""
    from gradscope.machine_code.language import Compiled
    from gradscope.watch.called import in_memory, writes

    monkeypatch.setattr(in_memory, "BEFORE", 24)
    monkeypatch.setattr(writes, "BEFORE", 24)
    memory = (ctypes.c_int64 * 5)(9, 9, 0)
    characters = ctypes.addressof(memory) + 24
    ctypes.memmove(characters, b"aten::add", 9)
    text = ctypes.c_int64(characters)
    with in_memory._OWN_MEMORY.open("rb", 0) as file:
        assert in_memory._text(file, ctypes.addressof(text)) == "aten::add"
    code = Compiled([writes.length_of])
    length = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address(writes.length_of))
    assert length(ctypes.addressof(text)) == 9


def test_what_python_does_not_show_is_read_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on PyTorch 2.4, whose nodes and saved values show less."""
    import torch

    from gradscope.watch import python_walk
    from gradscope.watch.native import native_walker

    def program() -> None:
        x = torch.arange(4.0, dtype=torch.float64).requires_grad_()
        first, second = (x.exp() * x).split([1, 3])
        wide = second.view(1, 3, 1, 1, 1).tanh()
        ((first + wide).sum() + torch.ones((), requires_grad=True)).backward()

    traces = [recorded(program, "engine")[1]]
    for module, name in (
        (python_walk, "SHOWS_INPUTS"),
        (native_walker, "SHOWS_INPUTS"),
        (native_walker, "SHOWS_SAVED"),
    ):
        monkeypatch.setattr(module, name, False)
    traces.append(recorded(program, "engine")[1])
    one, other = (list(likeness(each)) for each in traces)
    assert one == other
    assert len(traces[1].table(NodeBegin)) > 0
    assert traces[1].notes == traces[0].notes


def test_a_shape_that_is_not_stored_inline_is_said_to_be_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from gradscope.watch.native import native_walker

    monkeypatch.setattr(native_walker, "SHOWS_INPUTS", False)

    def program() -> None:
        torch.ones((1, 1, 1, 1, 1, 2), requires_grad=True).exp().sum().backward()

    _, trace = recorded(program, "graph")
    (text,) = trace.meta["not_shown"]
    assert text.startswith("shapes, dtypes and devices of results")
