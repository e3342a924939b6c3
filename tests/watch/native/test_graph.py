"""The graph found natively is the graph found from Python, whatever a program does."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

from gradscope.record.from_pytorch.pytorch_engine import PyTorch
from gradscope.record.recording import Options, Recording
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE, Edge, GraphTask, Node, Op, Saved, Tensor
from gradscope.trace.schema.declare import columns
from gradscope.trace.shortcomings import notes_of
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from gradscope.trace.writer import MemoryWriter
from tests.programs import Program, outcome, programs
from tests.shared.searching import SEARCHING, searching

pytestmark = pytest.mark.torch

TIMES = {"t", "begin", "end", "released", "died"}


def not_found() -> Any:
    from gradscope.watch.native import layout

    raise layout.NotFound("on purpose")


def recorded(program: Callable[[], Any], *, native: bool, level: str = "graph") -> Trace:
    """On a thread of its own, where numbers of nodes begin with 0."""
    from gradscope.record.from_pytorch.native.ends import PyTorchNodeEnds
    from gradscope.watch.native import native_walker

    def run() -> Trace:
        recording = Recording(MemoryWriter(), Options(level=level), PyTorch())
        with pytest.MonkeyPatch.context() as patch:
            if not native:
                patch.setattr(native_walker, "_ready", not_found)
            # What no backward came to is looked at natively only, when the program is over: a hook
            # of a node that leads to the node, say, which Python's collector cannot free.
            patch.setattr(PyTorchNodeEnds, "look", lambda *_: None)
            recording.start()
            try:
                program()
                assert recording.session is not None
                source: Any = recording.session.source
                assert bool(source.watcher.why_walked) != native, source.watcher.why_walked
                assert source.faults.texts == {}
            finally:
                recording.stop()
        return recording.trace()

    with ThreadPoolExecutor(1) as apart:
        return apart.submit(run).result()


def rows(trace: Trace) -> dict[str, list[Any]]:
    """All that is known of nodes, edges and tensors but when, with texts written out."""
    found: dict[str, list[Any]] = {}
    for row in (Node, Edge, Tensor, Saved, Op):
        table = trace.table(row)
        told = np.arange(len(table))
        if row is Op:
            told = np.flatnonzero(table["node"] != NONE)  # writes without one are seen natively
        for column in columns(row):
            if column.name not in TIMES and not (row is Op and column.name == "name"):
                cells = table[column.name]
                cells = cells.take(told) if isinstance(cells, Ragged) else cells[told]
                if column.interned:
                    found[f"{row.TABLE}.{column.name}"] = list(trace.texts(cells))
                else:
                    listed = cells.tuples() if isinstance(cells, Ragged) else cells.tolist()
                    found[f"{row.TABLE}.{column.name}"] = listed
    return renumbered(found)


NAMES_TENSORS = ("node.inputs", "op.inputs", "op.outputs", "saved.tensor")


def renumbered(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Tensors and their memory by when they are first named: they get numbers at other moments."""
    tensors = [name for name in found if name.startswith("tensor.")]
    new: dict[int, int] = {-1: -1}
    for name in NAMES_TENSORS:
        cells = found[name]
        for cell in cells:
            for each in cell if isinstance(cell, tuple) else [cell]:
                new.setdefault(each, len(new) - 1)
        found[name] = [
            tuple(new[each] for each in cell) if isinstance(cell, tuple) else new[cell]
            for cell in cells
        ]
    found["tensor.id"] = [new.setdefault(each, len(new) - 1) for each in found["tensor.id"]]
    order = sorted(range(len(found["tensor.id"])), key=found["tensor.id"].__getitem__)
    for name in tensors:
        found[name] = [found[name][place] for place in order]
    lines: dict[int, int] = {-1: -1}  # other lines have numbers, too: of finalizers, of writes
    for name in ("node.stack", "op.stack"):
        found[name] = [lines.setdefault(each, len(lines) - 1) for each in found[name]]
    memory: dict[int, int] = {-1: -1}
    found["tensor.storage"] = [
        memory.setdefault(each, len(memory) - 1) for each in found["tensor.storage"]
    ]
    return found


def differing(program: Callable[[], Any], level: str = "graph") -> list[str]:
    native, python = (recorded(program, native=native, level=level) for native in (True, False))
    assert check(native) == []
    one, other = rows(native), rows(python)
    return [name for name in one if one[name] != other[name]]


@pytest.mark.filterwarnings("ignore")
@searching(30)
@given(programs())
def test_of_random_programs(program: Program) -> None:
    """Without create_graph: machine code reports what a backward creates with the next backward."""
    import torch

    assume(not any(run.create_graph for run in program.runs))
    assert differing(lambda: outcome(torch, program), "engine") == []


def test_what_a_node_made_that_no_walk_meets_is_no_leaf() -> None:
    """PyTorch clones what is multiplied with itself in place: the product is written there."""
    import torch

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = x + x
        y.mul_(y)
        with suppress(RuntimeError):  # it is saved as the other factor, too, and written to
            y.sum().backward()

    assert differing(program, "engine") == []
    trace = recorded(program, native=True, level="engine")
    kept = {row.tensor for row in trace.rows(Saved)}
    assert [row.requires_grad for row in trace.rows(Tensor) if row.id in kept] == [True, True]


def models(torch: Any) -> dict[str, Callable[[], Any]]:
    """Nodes with many inputs and edges, of all kinds of numbers and shapes; hooks, kept graphs."""
    nn = torch.nn

    def trained(model: Any, *given: Any) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            out = model(*given)
            (out[0] if isinstance(out, tuple) else out).float().sum().backward()
            optimizer.step()

    def twice() -> None:
        x = torch.rand(3, requires_grad=True)
        y = x.exp().sin().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (g * g).sum().backward(retain_graph=True)
        y.backward()

    class Both(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y, x + y

        @staticmethod
        def backward(ctx: Any, one: Any, other: Any) -> Any:
            x, y = ctx.saved_tensors
            return one * y + other, one * x + other

    elsewhere = [torch.rand(3, requires_grad=True).exp() for _ in range(3)]  # the line is known

    class Keeps(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(elsewhere[-1])  # made by a node that no backward reaches
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    def custom() -> None:
        x, y = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True)
        one, other = Both.apply(x, y)
        one.backward(torch.ones(3), retain_graph=True)  # a custom function is a root
        torch.autograd.backward([one, other.sum()], [torch.ones(3), None])

    def shapes() -> None:
        x = torch.rand((2, 1, 2, 1, 2, 3, 2), requires_grad=True)  # more numbers than fit in place
        parts = [*x.unbind(6), *x.double().split([1, 2], 5), x.sum((0, 1)).cfloat().abs()]
        torch.autograd.backward([part.sum().double() for part in parts])
        torch.stack([torch.rand((), requires_grad=True) for _ in range(300)]).sum().backward()

    def written_to() -> None:
        x = torch.rand(4, requires_grad=True)
        y = x * 1
        y[1:].mul_(2)
        y.view(2, 2)[0].exp_()
        y.sum().backward()
        edge = torch.autograd.graph.get_gradient_edge(x.exp())
        torch.autograd.backward(edge, torch.ones(4))

    def aside() -> None:
        x = torch.rand(3, requires_grad=True)
        torch.autograd.grad(Keeps.apply(x).sum(), x)

    def made_before() -> None:
        y.backward()

    y = (torch.rand(3, requires_grad=True) * 2).exp().sum()
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return {
        "lstm": lambda: trained(nn.LSTM(4, 4, num_layers=2), torch.rand(5, 2, 4)),
        "convolution": lambda: trained(
            nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2)),
            torch.rand(2, 1, 8, 8),
        ),
        "transformer": lambda: trained(layer, torch.rand(2, 3, 8)),
        "twice": twice, "custom": custom, "shapes": shapes, "written to": written_to,
        "aside": aside,
        "made before": made_before,
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("level", ["graph", "engine"])
def test_of_models_and_odd_nodes(level: str) -> None:
    import torch

    wrong = {}
    for name in models(torch):

        def program(name: str = name) -> None:
            torch.manual_seed(0)
            models(torch)[name]()

        if found := differing(program, level):
            wrong[name] = found

    assert wrong == {}


@pytest.mark.search
def test_a_long_chain_of_nodes_is_watched_and_freed() -> None:
    import torch

    length = 200_000 if SEARCHING else 60_000

    def program() -> None:
        x = torch.ones(1, requires_grad=True)
        y = x
        for _ in range(length):
            y = y * 1.0
        y.backward()
        assert float(x.grad) == 1.0
        del y
        gc.collect()

    trace = recorded(program, native=True, level="engine")

    assert len(trace.table(Node)) == length + 1
    assert trace.table(Node)["topological_nr"].max() == length
    assert len(trace.table(Saved)) == length


@pytest.mark.parametrize("most", [None, 64])
def test_more_sizes_than_there_was_room_for(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """There is more room then, up to a limit; beyond it Python looks at what nodes keep."""
    import torch

    from gradscope.watch.native import forms

    monkeypatch.setattr(forms, "FEW_FORMS", 32)
    if most is not None:
        monkeypatch.setattr(forms, "MOST_FORMS", most)

    def program() -> None:
        x = torch.rand(12, 12, dtype=torch.float64, requires_grad=True)
        for high in range(1, 12):
            for wide in range(1, 12):
                part = x[:high, :wide]
                (part * part[:1, :1]).exp().sum().backward()

    assert differing(program, "engine") == []


def test_where_it_is_not_certain_where_things_are_the_graph_is_found_from_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from gradscope.watch.native import layout, native_walker

    monkeypatch.setattr(layout, "IN_WRAPPER", 8)  # so that nothing is where it is looked for
    layout.layout.cache_clear()
    native_walker._ready.cache_clear()
    recording = Recording(MemoryWriter(), Options(level="graph"), PyTorch())
    with recording:
        torch.ones(2, requires_grad=True).exp().sum().backward()
    monkeypatch.undo()
    layout.layout.cache_clear()
    native_walker._ready.cache_clear()
    trace = recording.trace()

    assert len(trace.table(GraphTask)) == 1
    assert len(trace.table(Node)) == 3
    assert [*notes_of(trace)] == []
    assert trace.meta["no_machine_code"].startswith("gradscope has no machine code for PyTorch ")


@pytest.mark.filterwarnings("ignore")
def test_what_a_program_kept_of_a_node_before_is_still_there() -> None:
    """The lines of a traceback, where it had switched on anomaly mode."""
    import torch

    with torch.autograd.detect_anomaly(check_nan=False):
        y = torch.ones(2, requires_grad=True).exp().sum()
    before = list(y.grad_fn.metadata["traceback_"])
    for native in (True, False):
        recorded(lambda: y.backward(retain_graph=True), native=native)

    assert list(y.grad_fn.metadata["traceback_"]) == before != []
