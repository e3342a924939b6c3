"""Runs a program and tells everything a user can see of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.programs.functions import FUNCTIONS, shown
from tests.programs.hooks import Listening
from tests.programs.language import Instruction, Program, Run
from tests.programs.words import BINARY, OPERATIONS, VIEWS, WRITES, leaf, numbers


def outcome(torch: Any, program: Program) -> dict[str, Any]:
    """Values, gradients, graphs, hook calls, the order of nodes, and errors."""
    running = Running(torch, program)
    for place, instruction in enumerate(program.instructions):
        running.trying(f"instruction {place}", lambda i=instruction: running.step(i))
    for place, run in enumerate(program.runs):
        running.trying(f"run {place}", lambda r=run: running.go(r))
    return {
        "errors": running.errors,
        "log": running.listening.log,
        "graphs": running.graphs,
        "found": running.found,
        "history": [history(value) for value in running.values],
        "values": shown(running.values),
        "versions": [value._version for value in running.values],
        "grads": shown([v.grad if v.is_leaf or v.retains_grad else None
                        for v in running.values if sound(v)]),
    }  # fmt: skip


WINDOWS = ("AsStridedBackward0", "CopySlices")
"""Nodes whose gradients PyTorch computes with other operations than we do."""

ANY = 9
"""How far back a value is that need not suit."""


class Running:
    """A program under way."""

    def __init__(self, torch: Any, program: Program) -> None:
        self.torch = torch
        self.watched = program.watched
        self.leaves = [
            leaf(torch, place, shape, wants or place == 0)
            for place, (shape, wants) in enumerate(program.leaves)
        ]
        self.values = list(self.leaves)
        self.listening = Listening(torch)
        self.errors: list[Any] = []
        self.graphs: list[Any] = []
        self.found: list[Any] = []
        self.cut = False

    def trying(self, where: str, action: Callable[[], None]) -> None:
        """Do it; an error is told, and the program goes on."""
        try:
            action()
        except Exception as error:
            self.errors.append((where, type(error).__name__, first_line(error)))

    def value(self, far: int, suits: Callable[[Any], bool] = lambda value: True) -> Any:
        """The value that far back among those that suit, where there are any."""
        found = [] if far == ANY else [value for value in self.values if suits(value)]
        found = found or self.values
        return found[-1 - far % len(found)]

    def wanting(self, far: int) -> Any:
        return self.value(far, lambda value: value.requires_grad)

    def writable(self, far: int) -> Any:
        leaves = [id(leaf) for leaf in self.leaves if leaf.requires_grad]
        return self.value(far, lambda value: id(value) not in leaves)

    # -- instructions ----------------------------------------------------------------------------

    def step(self, instruction: Instruction) -> None:
        """Run one instruction."""
        kind, *rest = instruction
        getattr(self, f"_{kind}")(*rest)

    def _quietly(self, instruction: Instruction) -> None:
        with self.torch.no_grad():
            self.step(instruction)

    def _packing(self, instruction: Instruction) -> None:
        log = self.listening.log

        def pack(tensor: Any) -> Any:
            log.append(("pack", *shown((tensor,))))
            return (tensor.detach().clone(),)

        def unpack(packed: Any) -> Any:
            log.append(("unpack", *shown(packed)))
            return packed[0]

        with self.torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            self.step(instruction)

    def _call(self, name: str, first: int, second: int) -> None:
        x, y = self.value(first), self.value(second)
        if name in BINARY and not x.is_contiguous():
            x = x.contiguous()
        self.made(OPERATIONS[name](self.torch, x, y))

    def _view(self, name: str, far: int) -> None:
        self.made(VIEWS[name](self.value(far)))

    def _function(self, name: str, first: int, second: int) -> None:
        dirty = name.startswith("dirty")
        x, y = self.writable(first) if dirty else self.wanting(first), self.value(second)
        if dirty:
            y = self.harmless(x, y)
        self.made(FUNCTIONS[name](self.torch, self.listening.log, x, y))

    def _hook(self, name: str, far: int) -> None:
        self.listening.hook(name, self.wanting(far), self.leaves)

    def _remove(self, far: int) -> None:
        self.listening.remove(far)

    def _write(self, name: str, first: int, second: int) -> None:
        x, y = self.writable(first), self.value(second)
        WRITES[name](self.torch, x, self.harmless(x, y))

    def _change(self, what: str, far: int) -> None:
        x = self.value(far)
        if what == "detach":
            self.cut = True
            self.made(x.detach())
        elif what == "detach_":
            x.detach_()
        elif what == "forget":
            x.grad = None
        elif what == "data":
            x.data.mul_(0.5)
        else:
            x.requires_grad_(what == "require")

    def harmless(self, x: Any, y: Any) -> Any:
        """What is written into x, as nobody can misread it.

        PyTorch crashes on some graphs made by giving a history to an alias made by detach(), and
        reads elements that it has just written where the two share memory in odd ways.
        """
        if y is not x and y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            y = y.clone()
        return y.detach() if self.cut and not x.requires_grad else y

    def made(self, result: Any) -> None:
        results = result if isinstance(result, tuple | list) else (result,)
        self.values.extend(x for x in results if isinstance(x, self.torch.Tensor))

    # -- backwards -------------------------------------------------------------------------------

    def go(self, run: Run) -> None:
        """Call backward as the run says, where it says."""
        if run.way == "here":
            self._go(run)
            return
        raised: list[Exception] = []

        def body() -> None:
            try:
                self._go(run)
            except Exception as error:
                raised.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        if raised:
            raise raised.pop()  # not from a list that a frame of its traceback holds

    def _go(self, run: Run) -> None:
        roots, seeds = zip(*[self._root(*root) for root in run.roots], strict=True)
        how = {"retain_graph": run.retain_graph or None, "create_graph": run.create_graph}
        self.graphs.append([walk(root) for root in roots])
        if self.watched:
            self._watch(roots)
        backward, grad = self.torch.autograd.backward, self.torch.autograd.grad
        if run.wanted is None:
            backward(roots, seeds, **how)
            return
        wanted = [self.wanting(far) for far in run.wanted]
        if run.fills:
            backward(roots, seeds, inputs=wanted, **how)
            return
        unused = {"allowed": {"allow_unused": True}, "zeros": {"materialize_grads": True}}
        found = grad(roots, wanted, seeds, **how, **unused.get(run.unused, {}))
        self.found.append(shown(found))
        again = [g.sum() for g in found if g is not None and g.requires_grad]
        if run.create_graph and again:
            if not any(name in WINDOWS for walked in self.graphs[-1] for name, _ in walked):
                self.graphs.append([walk(root) for root in again])
                if self.watched:
                    self._watch(again)
            backward(again, retain_graph=True)

    def _root(self, far: int, seed: str) -> tuple[Any, Any]:
        value = self.wanting(far)
        if seed == "sum":
            return value.sum(), None
        if seed == "missing":
            return value, None
        given = numbers(self.torch, tuple(value.shape), 1)
        return value, given.requires_grad_(seed == "given with history")

    def _watch(self, roots: Any) -> None:
        """Let every node say when it has run."""
        for place, node in enumerate(nodes(roots)):
            ran = ("ran", place, type(node).__name__)
            node.register_hook(lambda *grads, ran=ran: self.listening.log.append(ran))


def first_line(error: Exception) -> str:
    """The first line of an error, without what PyTorch asks its own users to report."""
    return str(error).partition("\n")[0].partition("  (Could this error message be")[0]


def sound(value: Any) -> bool:
    """Whether a value can still be asked for its history."""
    try:
        value.is_leaf  # noqa: B018
    except RuntimeError:
        return False
    return True


def history(value: Any) -> Any:
    """What a value knows of how it was made."""
    try:
        node = value.grad_fn
    except RuntimeError as error:
        return first_line(error)
    name = None if node is None else type(node).__name__
    return (name, value.output_nr, value.requires_grad, value.is_leaf, value.retains_grad)


def nodes(roots: Any) -> list[Any]:
    """All nodes below some tensors, in the order in which they are first reached."""
    found = list(dict.fromkeys(root.grad_fn for root in roots if root.grad_fn is not None))
    known = set(found)
    for node in found:
        for following, _ in node.next_functions:
            if following is not None and following not in known:
                known.add(following)
                found.append(following)
    return found


def walk(root: Any) -> list[Any]:
    """The names and edges of a graph, in the order in which it is first reached."""
    order = nodes([root])
    numbers = {node: place for place, node in enumerate(order)}
    return [
        (
            type(node).__name__,
            tuple((None if n is None else numbers[n], nr) for n, nr in node.next_functions),
        )
        for node in order
    ]
