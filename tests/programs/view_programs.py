"""Random programs of views, writes in place, modes and hooks, as data: for PyTorch and for us.

A step that raises ends only itself: what it says is compared, and the program goes on.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.programs.running import walk
from tests.programs.view_steps import COMPUTED, FUNCTIONS, HOOKED, SEVERAL, SINGLE, STATES, WRITES

MODES = ("grad", "grad", "grad", "grad", "no_grad", "inference", "hooks", "enable_grad")
LEAVES = ("matrix", "cube", "vector", "number", "complex", "transposed")
ERRORS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError)
MAKING = {*SINGLE, *SEVERAL, *COMPUTED, *FUNCTIONS}
WRITTEN = {*WRITES, "dirty"}
RESHAPED = ("t_", "transpose_", "unsqueeze_", "squeeze_", "squeeze_ dim", "as_strided_")
STEPS: dict[str, Callable[..., Any]] = {
    **SINGLE, **SEVERAL, **COMPUTED, **WRITES, **STATES, **FUNCTIONS, **HOOKED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a program: in this mode, do this with values `x` and `y` and a small number."""

    mode: str
    name: str
    x: int
    y: int
    n: int


@dataclass(frozen=True, slots=True)
class Program:
    """Leaves, steps over the values so far, and which values backward starts from."""

    leaves: tuple[tuple[str, bool], ...]  # what it is, requires_grad
    steps: tuple[Step, ...]
    roots: tuple[int, ...]
    create_graph: bool
    again: bool

    def __repr__(self) -> str:
        leaves = [f"  v{i} = {what}, requires_grad={g}" for i, (what, g) in enumerate(self.leaves)]
        end = f"  roots {self.roots} create_graph {self.create_graph} again {self.again}"
        return "\n".join(["Program:", *leaves, *(f"  {step}" for step in self.steps), end])


@st.composite
def programs(draw: st.DrawFn, *, longest: int = 10) -> Program:
    """Programs of up to `longest` steps: mostly views and writes."""
    leaves = tuple(
        (draw(st.sampled_from(LEAVES)), i == 0 or draw(st.booleans()))
        for i in range(draw(st.integers(1, 2)))
    )
    kinds = [SINGLE, SINGLE, SINGLE, WRITES, WRITES, WRITES, SEVERAL, COMPUTED, STATES, FUNCTIONS,
             HOOKED]  # fmt: skip
    steps = []
    for _ in range(draw(st.integers(1, longest))):
        name = draw(st.sampled_from(sorted(draw(st.sampled_from(kinds)))))
        mode = draw(st.sampled_from(MODES))
        # Most steps work on one of the last values.
        x, y = (draw(st.integers(0, 5)) for _ in range(2))
        steps.append(Step(mode, name, x, y, draw(st.integers(0, 5))))
    roots = tuple(draw(st.lists(st.integers(0, 5), min_size=1, max_size=2, unique=True)))
    return Program(leaves, tuple(steps), roots, draw(st.booleans()), draw(st.booleans()))


def leaf(torch: Any, place: int, what: str, requires_grad: bool) -> Any:
    """A leaf with values that depend only on its place."""
    shape = {"matrix": (2, 3), "cube": (2, 2, 2), "vector": (4,), "number": (), "complex": (2, 2),
             "transposed": (3, 2)}[what]  # fmt: skip
    count = 1
    for size in shape:
        count *= size
    values = [((7 * k + 3 * place) % 11 + 1) / 8 for k in range(count)]
    if what == "complex":
        values = [complex(v, 1 - v) for v in values]
    kind = torch.complex128 if what == "complex" else torch.float64
    made = torch.tensor(values, dtype=kind).reshape(shape).clone()
    if what == "transposed":
        made = made.t().detach()
    return made.requires_grad_(requires_grad)


class Run:
    """A program while it runs: its values, and everything it has shown."""

    def __init__(self, torch: Any, program: Program) -> None:
        self.torch = torch
        self.program = program
        self.values = [leaf(torch, i, *spec) for i, spec in enumerate(program.leaves)]
        self.log: list[Any] = []

    def mode(self, name: str) -> AbstractContextManager[Any]:
        torch = self.torch
        if name == "hooks":
            return nullcontext() if any(map(leads_nowhere, self.values)) else self.saving()
        return {"no_grad": torch.no_grad, "inference": torch.inference_mode,
                "enable_grad": torch.enable_grad, "grad": nullcontext}[name]()  # fmt: skip

    def saving(self) -> AbstractContextManager[Any]:
        """Saved tensors go through hooks that look at them."""

        def pack(tensor: Any) -> Any:
            counted = tensor.is_floating_point() or tensor.is_complex()
            self.log.append((
                "pack", numbers(tensor), tensor.requires_grad, counted and version(tensor)
            ))  # fmt: skip
            return tensor.detach().clone()

        def unpack(packed: Any) -> Any:
            self.log.append(("unpack", numbers(packed)))
            return packed

        made: AbstractContextManager[Any] = self.torch.autograd.graph.saved_tensors_hooks(
            pack, unpack
        )
        return made

    def look(self, tensor: Any) -> Any:
        return history(tensor)

    def total(self, tensor: Any) -> Any:
        return total(tensor)

    def numbers(self, tensor: Any) -> Any:
        return numbers(tensor)

    def steps(self) -> None:
        for place, step in enumerate(self.program.steps):
            x, y = (self.values[-1 - i % len(self.values)] for i in (step.x, step.y))
            if step.name in WRITTEN and repeated(x):
                continue  # the order of writes to one place is nobody's promise
            mode = "grad" if step.name in RESHAPED and step.mode != "enable_grad" else step.mode
            said_before = len(self.log)
            try:
                with self.mode(mode):
                    made = STEPS[step.name](self, x, y, step.n)
            except ERRORS as error:
                self.log[said_before:] = [(place, *said(error))]  # what was packed before, is moot
                continue
            self.log.append((place, shown(x)))
            if made is not None and step.name in MAKING:
                self.values.extend(made if isinstance(made, list | tuple) else [made])

    def backward(self) -> None:
        program, torch = self.program, self.torch
        for _ in range(2 if program.again else 1):
            try:
                roots = [total(self.values[-1 - i % len(self.values)]) for i in program.roots]
                self.log.append([walk(root) for root in roots])
                torch.autograd.backward(
                    roots, retain_graph=program.create_graph, create_graph=program.create_graph
                )
            except ERRORS as error:
                self.log.append(said(error))


def repeated(tensor: Any) -> bool:
    """Whether elements share memory in a way that nobody refuses to write to."""
    if not tensor.numel():
        return False
    reach, steps = 0, zip(tensor.stride(), tensor.shape, strict=True)
    for step, size in sorted((step, size) for step, size in steps if size > 1):
        if 0 < step <= reach:
            return True
        reach += step * (size - 1)
    return False


def leads_nowhere(tensor: Any) -> bool:
    """Whether a gradient goes nowhere: a view made without grad. What is saved then differs."""
    base = tensor._base
    return base is not None and base.requires_grad and not isinstance(history(tensor)[0], str)


def total(tensor: Any) -> Any:
    """A real number made of all of a tensor, each element with another weight."""
    if tensor.is_complex():
        tensor = tensor.real * 3 + tensor.imag
    return (tensor * tensor).sum()


def said(error: Exception) -> tuple[str, str]:
    return type(error).__name__, str(error).partition("\n")[0]


def numbers(tensor: Any) -> Any:
    return None if tensor is None else tensor.detach().resolve_conj().reshape(-1).tolist()


def version(tensor: Any) -> Any:
    try:
        return tensor._version
    except RuntimeError as error:
        return said(error)


def shown(tensor: Any) -> Any:
    """What can be asked of a tensor without making it look for its history."""
    return version(tensor), tuple(tensor.shape), tensor.is_inference()


def history(tensor: Any) -> Any:
    """What a tensor says of its history."""
    try:
        node = tensor.grad_fn
        return (
            None if node is None else type(node).__name__, tensor.output_nr, tensor.is_leaf,
            tensor.requires_grad, tensor._is_view(), tensor.retains_grad,
        )  # fmt: skip
    except ERRORS as error:
        return said(error)


def outcome(torch: Any, program: Program) -> dict[str, Any]:
    """Everything a user can see of a program."""
    run = Run(torch, program)
    run.steps()
    values = run.values
    result: dict[str, Any] = {"log": run.log, "histories": [history(v) for v in values]}
    places = {id(v): i for i, v in enumerate(values)}
    result["bases"] = [
        None if v._base is None else places.get(id(v._base), "elsewhere") for v in values
    ]
    run.backward()
    result["values"] = [numbers(v) for v in values]
    result["shown"] = [shown(v) for v in values]
    result["grads"] = [None if v._grad is None else numbers(v._grad) for v in values]
    return result


DOUBTFUL = ("modified inplace", "unsupported operation")
"""What two faults in one step may be refused for; which of them is named first is not compared."""


def alike(found: Any, wanted: Any) -> bool:
    """Equal, where numbers may differ in their last digits."""
    if isinstance(wanted, float | complex):
        both_nan = found != found and wanted != wanted  # noqa: PLR0124
        close = cmath.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12)
        return type(found) is type(wanted) and (close or both_nan)
    if isinstance(wanted, list | tuple):
        if type(found) is not type(wanted) or len(found) != len(wanted):
            return False
        pairs = zip(found, wanted, strict=True)
        return two_faults(found, wanted) or all(alike(f, w) for f, w in pairs)
    return bool(found == wanted)


def two_faults(found: Any, wanted: Any) -> bool:
    """Whether both refused the same step, perhaps for different faults of it."""
    if len(wanted) != 3 or found[0] != wanted[0]:
        return False
    texts = (found[2], wanted[2])
    refused = all(isinstance(text, str) for text in texts)
    return refused and any(doubt in text for doubt in DOUBTFUL for text in texts)


def at_fault(wanted: dict[str, Any]) -> bool:
    """Whether PyTorch fails at what it should do.

    It loses a gradient that is kept of a tensor whose dims change in place, forgets the dims of a
    complex tensor's parts that change in place, and counts in wrong units when a part of complex
    numbers is written to that do not begin their storage.
    """
    backwards = str([line for line in wanted["log"] if isinstance(line, tuple) and len(line) == 2])
    wrong = ("setStorage", "returned an invalid gradient")
    return "INTERNAL ASSERT" in str(wanted) or any(words in backwards for words in wrong)
