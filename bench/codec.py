"""Writing and opening a trace of a million engine events: bytes and nanoseconds an event."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from bench.measure import report, seconds
from gradscope.trace.load_save import load
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    BufferMade,
    Decrement,
    Dependency,
    Device,
    Edge,
    Event,
    Frame,
    GraphTask,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Pop,
    Push,
    Row,
    Saved,
    SavedReleased,
    Stack,
    Step,
    Storage,
    TaskBegin,
    TaskEnd,
    Tensor,
    Thread,
    columns,
)
from gradscope.trace.spec import check
from gradscope.trace.writer import FileWriter, Writer

EVENTS = 1_000_000
WINDOW = 10_000  # records between two commits
LAYERS = 24  # of the model: linear (with weight and bias), activation, normalisation, dropout, add
OPERATIONS = (
    ("addmm", "AddmmBackward0", 2),
    ("relu", "ReluBackward0", 0),
    ("native_layer_norm", "NativeLayerNormBackward0", 2),
    ("mul.Tensor", "MulBackward0", 0),
    ("add.Tensor", "AddBackward0", 0),
)

Columns = dict[str, Any]
Blocks = list[tuple[type[Row], Columns, bool]]


class Recorder:
    """Plays a training run with a clock that jitters, and keeps what a recorder would hand over."""

    def __init__(self, writer: Writer) -> None:
        self.random = random.Random(0)
        self.intern = writer.intern
        self.rows: dict[tuple[type[Row], bool, tuple[str, ...]], list[Any]] = defaultdict(list)
        self.windows: list[Blocks] = []
        self.counts: defaultdict[type[Row], int] = defaultdict(lambda: NONE)
        self.clock = self.seq = self.records = 0

    def id(self, kind: type[Row]) -> int:
        self.counts[kind] += 1
        return self.counts[kind]

    def tick(self, ns: float) -> int:
        self.clock += max(40, int(self.random.lognormvariate(0, 0.5) * ns))
        return self.clock

    def put(self, kind: type[Row], **cells: Any) -> None:
        self._put(kind, cells, amend=False)

    def amend(self, kind: type[Row], **cells: Any) -> None:
        self._put(kind, cells, amend=True)

    def _put(self, kind: type[Row], cells: Columns, *, amend: bool) -> None:
        self.rows[kind, amend, tuple(cells)].append(tuple(cells.values()))
        self.records += 1
        if self.records % WINDOW == 0:
            self.flush()

    def event(self, kind: type[Event], task: int, **cells: Any) -> None:
        self.put(kind, seq=self.seq, t=self.tick(250), thread=0, task=task, **cells)
        self.seq += 1

    def flush(self) -> None:
        blocks: Blocks = []
        for (kind, amend, names), rows in self.rows.items():
            if rows:
                many = {column.name for column in columns(kind) if column.many}
                named = zip(names, zip(*rows, strict=True), strict=True)
                given = {n: Ragged.of(v) if n in many else np.array(v) for n, v in named}
                blocks.append((kind, given, amend))
                rows.clear()
        self.windows.append(blocks)

    # The program ------------------------------------------------------------------------------

    def tensor(self, **cells: Any) -> tuple[int, int]:
        storage, tensor = self.id(Storage), self.id(Tensor)
        shape = (32, 256)
        self.put(Storage, id=storage, bytes=32768, device=0, born=self.clock)
        self.put(
            Tensor,
            id=tensor,
            shape=shape,
            strides=(256, 1),
            dtype=self.intern("float32"),
            **{"device": 0, "storage": storage, "bytes": 32768, "requires_grad": True} | cells,
        )
        return tensor, storage

    def model(self) -> None:
        self.put(Thread, id=self.id(Thread), name=self.intern("main"))
        self.put(Device, id=self.id(Device), name=self.intern("cpu"))
        self.stacks = []
        for line in range(40):
            frame, stack = self.id(Frame), self.id(Stack)
            text = self.intern(f"        x = self.layers[{line}](x)")
            site = {"file": self.intern("/home/user/project/model.py"), "line": 30 + line}
            self.put(Frame, id=frame, **site, function=self.intern("forward"), text=text)
            self.put(Stack, id=stack, frame=frame, parent=stack - 1)
            self.stacks.append(stack)
        self.leaves: list[tuple[int, int]] = []
        for layer in range(LAYERS):
            for name in ("weight", "bias", "scale", "shift"):
                called = self.intern(f"layers.{layer}.{name}")
                leaf, _ = self.tensor(leaf=True, name=called, op=NONE)
                node = self.node("AccumulateGrad", NONE, NONE, (leaf,), sequence_nr=NONE)
                self.leaves.append((leaf, node))

    def node(self, name: str, op: int, stack: int, inputs: tuple[int, ...], **cells: Any) -> int:
        node = self.id(Node)
        self.put(
            Node,
            **{"id": node, "name": self.intern(name), "sequence_nr": node, "op": op} | cells,
            inputs=inputs,
            stack=stack,
            thread=0,
            step=self.counts[Step],
            t=self.clock,
        )
        return node

    def forward(self) -> list[tuple[int, list[int], list[int], int]]:
        """One pass; for each node what comes after it in backward, what it saved, its storage."""
        leaves = iter(self.leaves)
        made = []
        previous, last = NONE, NONE
        for place in range(LAYERS * len(OPERATIONS)):
            name, node_name, parameters = OPERATIONS[place % len(OPERATIONS)]
            used = [next(leaves) for _ in range(parameters)]
            begin, op = self.clock, self.id(Op)
            stack = self.stacks[place % len(self.stacks)]
            output, storage = self.tensor(op=op)
            node = self.node(node_name, op, stack, (output,))
            inputs = tuple(t for t in (previous, *(leaf for leaf, _ in used)) if t != NONE)
            self.put(
                Op,
                id=op,
                name=self.intern(name),
                begin=begin,
                end=self.tick(4_000),
                inputs=inputs,
                outputs=(output,),
                node=node,
                stack=stack,
                thread=0,
                step=self.counts[Step],
                phase=1,
            )
            after = [n for n in (last, *(node for _, node in used)) if n != NONE]
            for index, following in enumerate(after):
                self.put(Edge, node=node, index=index, next=following, input_nr=0)
            kept = []
            for slot in ("self", "other")[: 1 + (parameters > 0)]:
                kept.append(self.id(Saved))
                saved = {"id": kept[-1], "node": node, "slot": self.intern(slot)}
                self.put(Saved, **saved, tensor=output, bytes=32768, t=self.clock)
            made.append((node, after, kept, storage))
            previous, last = output, node
        return made

    def backward(self, made: list[tuple[int, list[int], list[int], int]]) -> None:
        task = self.id(GraphTask)
        roots = (made[-1][0],)
        self.put(GraphTask, id=task, roots=roots, accumulate_grad=True, begin=self.clock)
        self.event(TaskBegin, task)
        for _, after, _, _ in reversed(made):
            for node in after:
                self.event(Dependency, task, node=node, count=1)
        self.queued = 0
        self.push(task, roots[0])
        for node, after, kept, storage in reversed(made):
            self.run(task, node, storage, after, kept)
            for leaf, accumulate in self.leaves:
                if accumulate in after:
                    self.run(task, accumulate, NONE, [], [], leaf)
        self.event(TaskEnd, task, failed=False)
        self.amend(GraphTask, id=task, end=self.clock)

    def push(self, task: int, node: int) -> None:
        self.queued += 1
        self.event(Push, task, node=node, length=self.queued)

    def run(
        self,
        task: int,
        node: int,
        storage: int,
        after: list[int],
        kept: list[int],
        leaf: int = NONE,
    ) -> None:
        self.queued -= 1
        self.event(Pop, task, node=node, length=self.queued)
        self.event(NodeBegin, task, node=node)
        self.tick(5_000)
        if leaf != NONE:
            self.event(Accumulate, task, node=node, tensor=leaf, how=2)
        self.event(NodeEnd, task, node=node, failed=False)
        if kept:
            self.event(SavedReleased, task, node=node)
            for saved in kept:
                self.amend(Saved, id=saved, released=self.clock, task=task)
            self.amend(Storage, id=storage, freed=self.clock)
        for index, following in enumerate(after):
            arrival = {"node": following, "source": node, "index": index, "remaining": 0}
            self.event(Decrement, task, **arrival)
            self.event(BufferMade, task, node=following, input_nr=0, undefined=False)
            self.push(task, following)

    def train(self, events: int) -> None:
        self.model()
        while self.seq < events:
            step = self.id(Step)
            self.put(Step, id=step, number=step, begin=self.clock)
            self.backward(self.forward())
            self.amend(Step, id=step, end=self.clock)
        self.flush()


def write(writer: Writer, windows: list[Blocks]) -> Iterator[float]:
    """Hand over all windows; how long the producer waits for each."""
    for window in windows:
        begin = perf_counter()
        for kind, given, amend in window:
            writer.block(kind, given, amend)
        writer.commit()
        yield perf_counter() - begin


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder))


def measure(folder: Path) -> None:
    plain = folder / "trace.json"
    with_texts = FileWriter(plain)
    run = Recorder(with_texts)
    run.train(EVENTS)
    list(write(with_texts, run.windows))
    with_texts.close()
    events = run.seq
    rows = sum(len(next(iter(c.values()))) for window in run.windows for _, c, _ in window)
    text = plain.read_bytes()
    trace = load(plain)
    assert trace.event_count == events
    assert check(trace) == []
    print(f"  {trace!r}")
    print(f"  {events} events among {rows} rows, in {len(run.windows)} windows")

    report("bytes an event", len(text) / events, 45, "B")
    report("bytes an event, gzip -6", len(gzip.compress(text, 6)) / events, 15, "B")
    opening = opened(plain)
    report("opening it", opening, 2, "s")
    standard = median(seconds(lambda: json.loads(text)) for _ in range(3))
    print(f"  json.loads of the same text alone: {standard:.2f} s ({opening / standard:.2f} ×)")
    print(f"  opening nodes and edges only: {seconds(lambda: load(plain, [Node, Edge])):.3f} s")
    print(f"  checking it against the spec: {seconds(lambda: check(trace)):.2f} s")
    for name in ("trace.json", "trace.json.gz", "trace.json.zst"):
        for background in (False, True):
            print(f"  {name} {recorded(folder / name, run.windows, background=background)}")
        print(f"  {name} opened: {opened(folder / name):.2f} s")


def opened(path: Path) -> float:
    return median(seconds(lambda: load(path)) for _ in range(5))


def recorded(path: Path, windows: list[Blocks], *, background: bool) -> str:
    """How long each window held up its producer, how long all took, and the file's size."""
    writer = FileWriter(path, background=background)
    for text in range(400):
        writer.intern(str(text))
    begin = perf_counter()
    waits = list(write(writer, windows))
    writer.close()
    total, size = perf_counter() - begin, path.stat().st_size
    where = "in a thread of its own" if background else "at commit"
    return (
        f"written {where}: the producer waits {sum(waits) / EVENTS * 1e9:.0f} ns an event, "
        f"{median(waits) * 1e3:.2f} ms a window; all takes {total / EVENTS * 1e9:.0f} ns an event; "
        f"{size / EVENTS:.1f} B an event"
    )


if __name__ == "__main__":
    main()
