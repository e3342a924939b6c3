"""Nodes get records when they are made, and a program sees nothing of it."""

from __future__ import annotations

import ctypes
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gradscope.machine_code.language import Compiled
from gradscope.record.from_pytorch.pytorch_engine import PyTorch
from gradscope.record.recording import Options, Recording
from gradscope.trace.schema import Node
from gradscope.trace.spec import check
from gradscope.trace.writer import MemoryWriter

pytestmark = pytest.mark.torch


def recording() -> Recording:
    return Recording(MemoryWriter(), Options(level="graph"), PyTorch())


def source_of(watched: Recording) -> Any:
    assert watched.session is not None
    source: Any = watched.session.source
    assert source.watcher.why_walked == ""
    return source


def test_a_nodes_metadata_is_the_programs_and_goes_with_the_node() -> None:
    import torch

    x = torch.ones(2, requires_grad=True)
    with recording() as watched:
        source_of(watched)
        first: Any = x.exp().grad_fn
        seen = [dict(first.metadata)]
        kept = first.metadata
        kept["of the program"] = [first.name()]
        del first
        gc.collect()
        others = [x.exp().grad_fn for _ in range(2000)]
        seen += [other.metadata for other in others]

    assert seen == [{}] * 2001
    assert kept == {"of the program": ["ExpBackward0"]}
    assert len({id(each.metadata) for each in others}) == len(others)


def test_records_are_used_again() -> None:
    import torch

    from gradscope.watch.native import records

    x = torch.ones(2, requires_grad=True)
    with recording() as watched:
        source_of(watched)
        x.exp().sum().backward()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(records, "CHUNK", 0)  # no more can be made
            for _ in range(1000):
                x.exp().sum().backward()

    assert len(watched.trace().table(Node)["id"]) == 3003


def test_what_is_raised_while_python_is_asked_is_raised_in_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if it had come a moment later: C++ code is under way, which cannot be left there."""
    import torch

    x = torch.ones(2, requires_grad=True)
    with recording() as watched:
        source = source_of(watched)

        def interrupted(*_: Any) -> Any:
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(source.faults, "guarded", interrupted)
        with pytest.raises(KeyboardInterrupt):
            x.exp()
            len([])  # there is a moment
        x.exp().sum().backward()

    assert len(watched.trace().table(Node)["id"]) == 3


def test_a_fault_of_ours_is_not_raised_in_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    x = torch.ones(2, requires_grad=True)
    with recording() as watched:
        source = source_of(watched)

        def too_deep(*_: Any) -> Any:
            monkeypatch.undo()
            raise RecursionError

        monkeypatch.setattr(source.faults, "guarded", too_deep)
        x.exp().sum().backward()
        said = source.unseen()

    assert len(watched.trace().table(Node)["id"]) == 3
    assert said["lines that created nodes, when Python could not be called"] == 1


def test_threads_make_and_free_nodes_at_once() -> None:
    import torch

    def work(number: int) -> None:
        x = torch.ones(4, requires_grad=True)
        kept: list[Any] = []
        for turn in range(100):
            y = (x * number).sin().sum()
            if turn % 3:
                y.backward()
            else:
                kept.append(y)

    with recording() as watched:
        source = source_of(watched)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(32)))
        assert source.faults.texts == {}
    trace = watched.trace()

    numbers = trace.table(Node)["id"].tolist()
    assert len(set(numbers)) == len(numbers) == 32 * (3 * 66 + 1)
    assert check(trace) == []


def test_a_node_that_a_thread_of_pytorchs_own_makes_has_no_line() -> None:
    """There runs nothing of Python's, and nothing may be raised."""
    import torch  # noqa: F401 -- what is watched

    from gradscope.watch.native.records import answered

    code = Compiled([answered])
    c, thread, said = ctypes.CDLL(None), ctypes.c_uint64(), ctypes.c_int64()
    with recording() as watched:
        maker = source_of(watched).listener.maker
        begin, asks = ctypes.c_void_p(code.address(answered)), ctypes.c_void_p(id(maker._asks))
        assert c.pthread_create(ctypes.byref(thread), None, begin, asks) == 0
        assert c.pthread_join(thread, ctypes.byref(said)) == 0
        assert source_of(watched).faults.texts == {}

    place, line = divmod(said.value, 1 << 32)
    assert place > 0
    assert line == 0


def test_the_anomaly_mode_of_a_program_stores_lines_and_parents() -> None:
    import torch

    def program() -> list[Any]:
        x = torch.ones(2, requires_grad=True)
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            y = x.exp().sum()
            (grad,) = torch.autograd.grad(y, x, create_graph=True)
        z: Any = x.exp()
        assert grad.grad_fn is not None
        metadata = grad.grad_fn.metadata
        return [
            sorted(metadata), metadata["parent_"].name(), z.grad_fn.metadata,
            any("torch.autograd.grad(y, x" in line for line in metadata["traceback_"]),
        ]  # fmt: skip

    unwatched = program()
    with recording() as watched:
        source_of(watched)
        seen = program()

    assert seen == unwatched == [["parent_", "traceback_"], "ExpBackward0", {}, True]
