"""The page of a trace: how large and how smooth it is with 100,000 nodes and 500,000 events."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import numpy as np

from bench.measure import report, seconds
from gradscope.render.pictures import render
from gradscope.trace.load_save import load
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import (
    NONE,
    Decrement,
    Edge,
    Frame,
    GraphTask,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Push,
    Row,
    SavedReleased,
    Stack,
    TaskBegin,
    TaskEnd,
    Tensor,
    Thread,
)
from gradscope.trace.writer import FileWriter

NODES, EVENTS = 100_000, 500_000
MODULES, LINES, LEAVES = 2_000, 400, 500
NAMES = ("Addmm", "Relu", "NativeLayerNorm", "Mul", "Add", "View", "Mm", "Sum", "Exp", "Log")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FRAMES = 90
SAID = ("renormalise", "layers.17", "mul", "net.py:8", "exp#40")
"""What is looked for, letter by letter."""


def main() -> None:
    """Print what a page costs to write and to look at."""
    with tempfile.TemporaryDirectory() as folder:
        path, page = Path(folder) / "trace.json", Path(folder) / "trace.html"
        write_trace(path)
        opening = seconds(lambda: load(path))
        trace = load(path)
        print(f"  {trace!r}; opening it: {opening:.2f} s")
        report("writing its page, when it is open", seconds(lambda: render(trace, page)), 3.0, "s")
        report("the page", page.stat().st_size / 1e6, 4.0, "MB")
        looked_at(page)


# What is shown -------------------------------------------------------------------------------


def write_trace(path: Path) -> None:
    """One backward through a net in which nothing repeats, with skips and shared leaves."""
    writer = FileWriter(path)
    told = _Told(writer)
    names = [writer.intern(f"{name}Backward0") for name in NAMES]
    told.rows(Thread, [(0, writer.intern("main"))], ("id", "name"))
    modules = [(id, writer.intern(f"layers.{id}" if id else "")) for id in range(MODULES)]
    kind = writer.intern("Block")
    told.rows(Module, [(*each, kind) for each in modules], ("id", "path", "type"))
    file, function = writer.intern("/home/user/net.py"), writer.intern("forward")
    lines = [writer.intern(f"x = self.part{line}(x, scale={line})") for line in range(LINES)]
    told.rows(
        Frame,
        [(line, file, line + 1, function, lines[line]) for line in range(LINES)],
        ("id", "file", "line", "function", "text"),
    )
    told.rows(Stack, [(line, line, NONE) for line in range(LINES)], ("id", "frame", "parent"))
    told.graph(names, writer.intern("AccumulateGrad"))
    told.backward()
    writer.close()


class _Told:
    """What a recorder would tell of the backward, in columns."""

    def __init__(self, writer: FileWriter) -> None:
        self.writer = writer
        self.chance = Random(0)
        self.below: defaultdict[int, list[int]] = defaultdict(list)

    def rows(
        self, kind: type[Row], rows: Iterable[tuple[Any, ...]], names: tuple[str, ...]
    ) -> None:
        columns = zip(names, zip(*rows, strict=True), strict=True)
        many = {"roots", "inputs", "outputs", "shape"}
        given = {
            name: Ragged.of(values) if name in many else np.array(values)
            for name, values in columns
        }
        self.writer.block(kind, given)

    def graph(self, names: list[int], leaf: int) -> None:
        chance, nodes, edges = self.chance, [], []
        nodes += [(id, leaf, NONE, 0, NONE, 0, 0) for id in range(LEAVES)]
        for id in range(LEAVES, NODES):
            module = 1 + (id - LEAVES) * (MODULES - 1) // NODES
            line = chance.randrange(LINES)
            nodes.append((id, chance.choice(names), id, 0, line, module, 1_000 * id))
            heads = [id - 1] if id > LEAVES else []
            if chance.random() < 0.3:
                heads.append(max(LEAVES, id - chance.randrange(2, 30)))
            if chance.random() < 0.25:
                heads.append(chance.randrange(LEAVES))
            self.below[id] = [head for head in dict.fromkeys(heads) if head != id]
            edges += [(id, index, head, 0) for index, head in enumerate(self.below[id])]
        columns = ("id", "name", "sequence_nr", "thread", "stack", "module", "t")
        self.rows(Node, nodes, columns)
        self.rows(Edge, edges, ("node", "index", "next", "input_nr"))
        self.calls(names, nodes)
        self.missing = np.bincount([edge[2] for edge in edges], minlength=NODES).tolist()

    def calls(self, names: list[int], nodes: list[tuple[int, ...]]) -> None:
        """The call that made each node, with what it was given and what it returned."""
        chance, dtype = self.chance, self.writer.intern("float32")
        called = {
            name: self.writer.intern(each.lower()) for name, each in zip(names, NAMES, strict=True)
        }
        sizes = [(32, 2**power) for power in range(4, 12)]
        tensors, ops, clock = [], [], 0
        for id, name, _, _, stack, module, _ in nodes:
            leaf = id < LEAVES
            tensors.append((id, chance.choice(sizes), dtype, leaf, leaf, NONE if leaf else id))
            if not leaf:
                clock += chance.randrange(400, 9_000)
                begin, clock = clock, clock + int(chance.lognormvariate(9, 1))
                given = tuple(self.below[id])
                ops.append((id, called[name], begin, clock, given, (id,), id, module, stack, 0))
        self.rows(Tensor, tensors, ("id", "shape", "dtype", "leaf", "requires_grad", "op"))
        columns = "id", "name", "begin", "end", "inputs", "outputs", "node", "module", "stack"
        self.rows(Op, ops, (*columns, "thread"))

    def backward(self) -> None:
        """Run every node, each when all its gradients have come."""
        chance, clock, seq = self.chance, 10_000_000_000, 0
        events: defaultdict[type[Row], list[tuple[int, ...]]] = defaultdict(list)

        def tell(kind: type[Row], *cells: int) -> None:
            nonlocal clock, seq
            clock += chance.randrange(40, 900)
            events[kind].append((seq, clock, 0, 0, *cells))
            seq += 1

        begin = clock
        tell(TaskBegin)
        ready = [NODES - 1]
        tell(Push, NODES - 1, 0)
        while ready:
            node = ready.pop()
            tell(NodeBegin, node)
            clock += int(chance.lognormvariate(9, 1))
            tell(NodeEnd, node)
            if node >= LEAVES and seq < EVENTS - 2:
                tell(SavedReleased, node)
            for index, head in enumerate(self.below[node]):
                self.missing[head] -= 1
                if seq < EVENTS:
                    tell(Decrement, head, node, index)
                if not self.missing[head]:
                    tell(Push, head, 0)
                    ready.append(head)
        tell(TaskEnd)
        more = {
            Push: ("node", "queue"), Decrement: ("node", "source", "index"),
            TaskBegin: (), TaskEnd: (),
        }  # fmt: skip
        self.rows(
            GraphTask, [(0, (NODES - 1,), begin, clock, True)],
            ("id", "roots", "begin", "end", "accumulate_grad"),
        )  # fmt: skip
        for kind, rows in events.items():
            self.rows(kind, rows, ("seq", "t", "thread", "task", *more.get(kind, ("node",))))


# Looking at it -------------------------------------------------------------------------------

READY = """addEventListener("DOMContentLoaded", () => new MutationObserver((_, observer) => {
  if (!document.documentElement.dataset.ready) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.painted = performance.now(); }));
}).observe(document.documentElement, { attributes: true }))"""

FRAME = """async ([frames, name]) => {
  const app = window.gradscope;
  const [first, last] = app.events;
  const canvas = document.getElementById("graph");
  const { left, top, width, height } = canvas.getBoundingClientRect();
  canvas.setPointerCapture = () => {};
  const at = (kind, place) => canvas.dispatchEvent(new PointerEvent(kind, { bubbles: true,
    pointerId: 1, buttons: 1, clientX: left + width / 2 + 200 * Math.sin(place / 9),
    clientY: top + height / 2 + 4 * place }));
  const acts = {
    pan: (place) => at("pointermove", place),
    zoom: (place) => canvas.dispatchEvent(new WheelEvent("wheel", { bubbles: true,
      cancelable: true, clientX: left + width / 2, clientY: top + height / 2,
      deltaY: 40 * Math.sin(place / 15) })),
    slide: (place) =>
      app.go(Math.round(first + (last - first) * (0.5 + 0.5 * Math.sin(place / 20)))),
    lanes: (place) => {
      const { axis } = app.timeline;
      app.timeline.zoom(Math.exp(0.3 * Math.sin(place / 15)), (axis.from + axis.to) / 2);
      app.timeline.pan(0.02 * Math.sin(place / 7));
    },
  };
  if (name === "pan") at("pointerdown", 0);
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  await frame();
  const took = [];
  let before = await frame();
  for (let place = 0; place < frames; place += 1) {
    acts[name](place);
    const now = await frame();
    took.push(now - before);
    before = now;
  }
  if (name === "pan") at("pointerup", frames);
  return took;
}"""

SEARCH = """(said) => {
  const input = document.getElementById("search");
  const took = [];
  for (let length = 1; length <= said.length; length += 1) {
    input.value = said.slice(0, length);
    const begin = performance.now();
    input.dispatchEvent(new Event("input"));
    took.push(performance.now() - begin);
  }
  input.value = "";
  input.dispatchEvent(new Event("input"));
  return took;
}"""

TOGGLE = """() => {
  const app = window.gradscope;
  const took = [];
  for (const box of app.picture.all.filter((box) => box.is === "group").slice(0, 12)) {
    const begin = performance.now();
    app.toggle(Number(box.key.slice(1)));
    app.flush();
    took.push(performance.now() - begin);
    app.toggle(Number(box.key.slice(1)));
    app.flush();
  }
  return took;
}"""


def looked_at(page: Path) -> None:
    """Open the page in Chromium, and move about in it."""
    program = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        print("  in a browser: not measured; pip install playwright, apt-get install chromium")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        window = browser.new_page(viewport={"width": 1600, "height": 1000})
        window.add_init_script(READY)
        paints = []
        for _ in range(3):
            window.goto("about:blank")
            window.goto(page.as_uri())
            while not (painted := window.evaluate("window.painted")):
                window.wait_for_timeout(20)
            paints.append(painted / 1e3)
        report("until it is painted", median(paints), 1.0, "s")
        acts = {"pan": "panning", "zoom": "zooming", "slide": "sliding", "lanes": "moving in time"}
        for name, words in acts.items():
            _frames(words, window.evaluate(FRAME, [FRAMES, name]))
        window.keyboard.press("Z")
        _frames("sliding, all folded", window.evaluate(FRAME, [FRAMES, "slide"]))
        window.keyboard.press("Z")
        keys = sorted(took for said in SAID for took in window.evaluate(SEARCH, said))
        report("a key of a search, the slowest of 20", keys[-1 - len(keys) // 20], 30.0, "ms")
        opened = window.evaluate(TOGGLE)
        report("a group opened or folded", median(opened), 50.0, "ms")
        browser.close()


def _frames(what: str, took: list[float]) -> None:
    """A screen shows 60 frames a second: what is timed is to a tenth."""
    took = sorted(took)
    report(f"a frame while {what}, the median", median(took), 17.0, "ms")
    late = took[-1 - len(took) // 20]
    report(f"a frame while {what}, the slowest of 20", late, 17.0, "ms")
