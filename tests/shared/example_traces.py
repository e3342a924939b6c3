"""Traces of small programs, written by hand with a miniature of the engine and a fake clock.

The engine here is only as true as the views need: a queue by sequence number, dependency counts,
buffers. The runtime's own tests hold the real one to PyTorch.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gradscope.trace.schema import (
    NONE,
    Accumulate,
    BufferAdded,
    BufferMade,
    Decrement,
    Dependency,
    Edge,
    Event,
    Frame,
    GraphTask,
    HookBegin,
    HookEnd,
    HookKind,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Place,
    Pop,
    Push,
    Row,
    Saved,
    Stack,
    Step,
    TaskBegin,
    TaskEnd,
    Tensor,
    Thread,
    Value,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


@dataclass
class Program:
    """Writes the rows of a run, in the order in which a recorder would."""

    script: str = "ex.py"
    level: str = "engine"
    rows: list[Row] = field(default_factory=lambda: [Thread(0, "main")])
    clock: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    edges: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # node → (next, nr)
    names: dict[int, str] = field(default_factory=dict)
    leaf_nodes: dict[int, int] = field(default_factory=dict)  # tensor → AccumulateGrad
    modules: dict[str, int] = field(default_factory=dict)
    step: int = NONE
    task: int = NONE
    hooks: dict[int, tuple[str, int]] = field(default_factory=dict)  # node → (name, stack)

    def id(self, kind: str) -> int:
        self.counts[kind] += 1
        return self.counts[kind] - 1

    def tick(self, ns: int = 1_000) -> int:
        self.clock += ns
        return self.clock

    def line(self, number: int, text: str) -> int:
        frame, stack = self.id("frame"), self.id("stack")
        self.rows += [Frame(frame, self.script, number, "<module>", text), Stack(stack, frame)]
        return stack

    def module(self, path: str, kind: str) -> int:
        parent = self.modules.get(path.rpartition(".")[0], NONE) if path else NONE
        self.modules[path] = self.id("module")
        self.rows.append(Module(self.modules[path], path, kind, parent))
        return self.modules[path]

    def begin_step(self) -> None:
        number = self.id("step")
        self.rows.append(Step(number, number, self.tick()))
        self.step = number

    def leaf(self, shape: tuple[int, ...], name: str = "") -> int:
        tensor = self.id("tensor")
        self.rows.append(
            Tensor(tensor, shape=shape, dtype="float32", leaf=True, requires_grad=True, name=name)
        )
        return tensor

    def call(
        self,
        name: str,
        inputs: tuple[int, ...],
        shape: tuple[int, ...],
        line: int = NONE,
        module: str = "",
        saves: tuple[tuple[str, int], ...] = (),
    ) -> int:
        """A forward call that makes a node; returns the tensor it makes."""
        node, op, tensor = self.id("node"), self.id("op"), self.id("tensor")
        begin = self.tick()
        operation = name.removesuffix("Backward0").lower()
        module_id = self.modules.get(module, NONE)
        self.rows += [
            Tensor(tensor, shape=shape, dtype="float32", requires_grad=True, op=op),
            Node(
                node,
                name,
                sequence_nr=node,
                op=op,
                inputs=(tensor,),
                task=self.task,
                module=module_id,
                stack=line,
                thread=0,
                step=self.step,
                t=begin,
            ),
        ]
        self.names[node] = name
        self.edges[node] = [(self.node_of(each), 0) for each in inputs]
        self.rows += [
            Edge(node, index, target, nr) for index, (target, nr) in enumerate(self.edges[node])
        ]
        for slot, saved in saves:
            size = 4 * 4
            self.rows.append(
                Saved(self.id("saved"), node, slot, saved, 0, size, t=self.clock, released=NONE)
            )
        self.rows.append(
            Op(
                op,
                f"{operation}.Tensor",
                begin=begin,
                end=self.tick(2_000),
                inputs=inputs,
                outputs=(tensor,),
                node=node,
                module=module_id,
                stack=line,
                thread=0,
                step=self.step,
            )
        )
        self.made[tensor] = node
        return tensor

    made: dict[int, int] = field(default_factory=dict)

    def node_of(self, tensor: int) -> int:
        """The node whose gradient this tensor's is: its maker, or its AccumulateGrad."""
        if tensor in self.made:
            return self.made[tensor]
        if tensor not in self.leaf_nodes:
            node = self.id("node")
            self.leaf_nodes[tensor] = node
            self.names[node] = "AccumulateGrad"
            self.edges[node] = []
            self.rows.append(
                Node(node, "AccumulateGrad", NONE, inputs=(tensor,), step=self.step, t=self.clock)
            )
        return self.leaf_nodes[tensor]

    def hook(self, tensor: int, name: str, line: int) -> None:
        self.hooks[self.node_of(tensor)] = (name, line)

    # Backward --------------------------------------------------------------------------------

    def backward(self, root: int, line: int = NONE) -> int:
        """Run the graph above a tensor; returns the graph task."""
        task = self.id("task")
        begin = self.tick()
        counts = Counter(t for n in self._reach(self.made[root]) for t, _ in self.edges[n])
        self._event(TaskBegin, task)
        for node, count in sorted(counts.items()):
            self._event(Dependency, task, node=node, count=count)
        queue: list[tuple[int, int]] = []
        self._push(queue, task, self.made[root])
        seen: set[tuple[int, int]] = set()
        while queue:
            _, node = heapq.heappop(queue)
            self._event(Pop, task, node=node, length=len(queue))
            self._run(task, node)
            for index, (target, nr) in enumerate(self.edges[node]):
                counts[target] -= 1
                self._event(
                    Decrement,
                    task,
                    node=target,
                    source=node,
                    index=index,
                    remaining=counts[target],
                )
                kind = BufferAdded if (target, nr) in seen else BufferMade
                self._event(kind, task, node=target, input_nr=nr)
                seen.add((target, nr))
                if counts[target] == 0:
                    self._push(queue, task, target)
        self._event(TaskEnd, task)
        self.rows.append(
            GraphTask(
                task,
                roots=(self.made[root],),
                accumulate_grad=True,
                thread=0,
                stack=line,
                step=self.step,
                begin=begin,
                end=self.clock,
            )
        )
        return task

    def _reach(self, root: int) -> list[int]:
        order, seen = [root], {root}
        for node in order:
            new = [target for target, _ in self.edges[node] if target not in seen]
            order += dict.fromkeys(new)
            seen.update(new)
        return order

    def _push(self, queue: list[tuple[int, int]], task: int, node: int) -> None:
        first = self.names[node] == "AccumulateGrad"
        heapq.heappush(queue, (-(10**9) if first else -node, node))
        self._event(Push, task, node=node, length=len(queue))

    def _run(self, task: int, node: int) -> None:
        if node in self.hooks:
            name, stack = self.hooks[node]
            hook = {"node": node, "hook": int(HookKind.TENSOR)}
            self._event(HookBegin, task, **hook, name=name, stack=stack)
            self._event(HookEnd, task, **hook, replaced=True)
        self._event(NodeBegin, task, node=node)
        if self.names[node] == "AccumulateGrad":
            tensor = next(t for t, n in self.leaf_nodes.items() if n == node)
            self._event(Accumulate, task, node=node, tensor=tensor)
        self.tick(3_000 + 1_000 * (node % 5))
        self._event(NodeEnd, task, node=node)

    def _event(self, kind: type[Event], task: int, **columns: int | str | bool) -> int:
        self.rows.append(
            kind(seq=self.id("event"), t=self.tick(500), thread=0, task=task, **columns)
        )
        return self.counts["event"] - 1

    def trace(self, **facts: Any) -> Trace:
        """The trace, with these facts in its `meta`."""
        rows = sorted(self.rows, key=lambda row: not isinstance(row, Event))
        meta = {
            "producer": "gradscope",
            "producer_version": "0.1.0",
            "level": self.level,
            "script": self.script,
            **facts,
        }
        return trace_of(*rows, meta=meta)


FEW = ("GS101", "GS201", "GS301", "GS302", "GS303", "GS304")
"""Rules looked for where a whole report is compared: it is not to grow with every new one."""


def mean_of_squares() -> Trace:
    """The first example of every autograd tutorial."""
    return mean_of_squares_program().trace()


def mean_of_squares_program() -> Program:
    p = Program()
    x = p.leaf((2, 2), "x")
    y = p.call("AddBackward0", (x,), (2, 2), p.line(4, "y = x + 2"))
    line = p.line(5, "z = y * y * 3")
    yy = p.call("MulBackward0", (y, y), (2, 2), line, saves=(("self", y), ("other", y)))
    z = p.call("MulBackward0", (yy,), (2, 2), line)
    out = p.call("MeanBackward0", (z,), (), p.line(6, "out = z.mean()"))
    p.backward(out, p.line(7, "out.backward()"))
    return p


def two_layers(steps: int = 1, layers: int = 2) -> Trace:
    """A small network: modules, parameters, steps."""
    return two_layers_program(steps, layers).trace()


def two_layers_program(steps: int, layers: int = 2) -> Program:
    p = Program(script="train.py")
    p.module("", "Model")
    for layer in range(layers):
        p.module(f"layers{layer}", "Block")
        p.module(f"layers{layer}.linear", "Linear")
    weights = [
        (p.leaf((8, 8), f"layers{n}.linear.weight"), p.leaf((8,), f"layers{n}.linear.bias"))
        for n in range(layers)
    ]
    linear = p.line(12, "return F.linear(x, self.weight, self.bias)")
    relu = p.line(20, "return torch.relu(self.linear(x))")
    loss_line, backward = p.line(31, "loss = ((y - t) ** 2).mean()"), p.line(32, "loss.backward()")
    for _ in range(steps):
        p.begin_step()
        x: tuple[int, ...] = ()
        for layer, (weight, bias) in enumerate(weights):
            path = f"layers{layer}"
            turned = p.call("TBackward0", (weight,), (8, 8), linear, f"{path}.linear")
            h = p.call("AddmmBackward0", (bias, *x, turned), (4, 8), linear, f"{path}.linear")
            x = (p.call("ReluBackward0", (h,), (4, 8), relu, path),)
        error = p.call("SubBackward0", x, (4, 8), loss_line)
        square = p.call("PowBackward0", (error,), (4, 8), loss_line)
        loss = p.call("MeanBackward0", (square,), (), loss_line)
        p.backward(loss, backward)
    return p


def shared_weight(times: int) -> Trace:
    """One leaf used many times."""
    p = Program(script="rnn.py")
    weight, x = p.leaf((4, 4), "w"), p.leaf((4,), "h0")
    line = p.line(5, "h = torch.tanh(w @ h)")
    for _ in range(times):
        x = p.call("TanhBackward0", (p.call("MvBackward0", (weight, x), (4,), line),), (4,), line)
    p.backward(p.call("SumBackward0", (x,), (), p.line(6, "h.sum()")))
    return p.trace()


def nan_in_backward() -> Trace:
    """√0 has an infinite derivative, and 0 · Inf is NaN."""
    return nan_in_backward_program().trace()


def nan_in_backward_program() -> Program:
    p = Program(script="nan.py", level="values")
    x = p.leaf((3,), "x")
    square = p.call("PowBackward0", (x,), (3,), p.line(4, "s = x ** 2"))
    root = p.call("SqrtBackward0", (square,), (3,), p.line(5, "r = s.sqrt()"))
    out = p.call("SumBackward0", (root,), (), p.line(6, "out = r.sum()"))
    for op, tensor in enumerate((square, root, out)):
        p.rows.append(_value(p, Place.OP_OUTPUT, op=op, tensor=tensor))
    p.rows.append(_value(p, Place.LEAF, tensor=x, t=0))
    task = p.backward(out, p.line(7, "out.backward()"))
    began = {row.node: row for row in p.rows if isinstance(row, NodeBegin)}
    ended = {row.node: row for row in p.rows if isinstance(row, NodeEnd)}
    for tensor, into, out_of in ((out, (), ()), (root, (), (0, 1)), (square, (0, 1), (1, 0))):
        node = p.made[tensor]
        p.rows += [
            _value(p, Place.NODE_INPUT, began[node], task, into),
            _value(p, Place.NODE_OUTPUT, ended[node], task, out_of),
        ]
    leaf = p.leaf_nodes[x]
    p.rows += [
        _value(p, Place.NODE_INPUT, began[leaf], task, (1, 0)),
        _value(p, Place.GRAD, ended[leaf], task, (1, 0), tensor=x),
    ]
    return p


def _value(
    p: Program,
    place: Place,
    event: NodeBegin | NodeEnd | None = None,
    task: int = NONE,
    bad: tuple[int, ...] = (),
    op: int = NONE,
    tensor: int = NONE,
    t: int | None = None,
) -> Value:
    nan, inf = bad or (0, 0)
    return Value(
        p.id("value"),
        place,
        op=op,
        node=event.node if event else NONE,
        tensor=tensor,
        task=task,
        seq=event.seq if event else NONE,
        t=event.t if event else p.clock if t is None else t,
        count=3,
        nan=nan,
        posinf=inf,
        min=0.0,
        max=1.0,
        rms=0.5,
        bad=(0,) if nan or inf else (),
    )
