"""Random programs over tensors, as data: the same program runs on PyTorch and on our runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

SIZE = 3


@dataclass(frozen=True, slots=True)
class Program:
    """Leaves, instructions over the values so far, and how backward is called."""

    leaves: tuple[tuple[str, bool], ...]  # shape name, requires_grad
    instructions: tuple[tuple[Any, ...], ...]
    roots: tuple[int, ...]
    inputs: tuple[int, ...] | None
    retain_graph: bool
    create_graph: bool
    again: bool

    def __repr__(self) -> str:
        return "\n".join(["Program:", *(f"  {line}" for line in self.lines())])

    def lines(self) -> list[str]:
        """The program in words, for failing examples."""
        made = [
            f"v{i} = {shape} leaf, requires_grad={grad}"
            for i, (shape, grad) in enumerate(self.leaves)
        ]
        made += [" ".join(map(str, i)) for i in self.instructions]
        made.append(f"roots {self.roots} inputs {self.inputs} retain {self.retain_graph} "
                    f"create {self.create_graph} again {self.again}")  # fmt: skip
        return made


SHAPES = {"matrix": (SIZE, SIZE), "row": (1, SIZE), "vector": (SIZE,), "number": ()}
BINARY = ("add", "sub", "mul")
UNARY = ("tanh", "neg", "exp", "sigmoid")
VIEWS = ("t", "row0", "slice", "flat", "expand")
WRITES = ("mul_", "add_", "setitem", "copy_")
HOOKS = ("scale", "keep", "none")


@st.composite
def programs(draw: st.DrawFn, *, writes: bool = True, longest: int = 12) -> Program:
    """Programs of up to `longest` instructions; some raise, which is compared as well."""
    leaves = tuple(
        (draw(st.sampled_from(sorted(SHAPES))), draw(st.booleans()) or i == 0)
        for i in range(draw(st.integers(1, 3)))
    )
    kinds = ["binary", "binary", "unary", "view", "hook", "detach"] + (["write"] if writes else [])
    instructions: list[tuple[Any, ...]] = []
    values = len(leaves)
    for _ in range(draw(st.integers(1, longest))):
        kind = draw(st.sampled_from(kinds))
        pick = st.integers(0, values - 1)
        if kind == "binary":
            instructions.append((draw(st.sampled_from(BINARY)), draw(pick), draw(pick)))
        elif kind == "unary":
            instructions.append((draw(st.sampled_from(UNARY)), draw(pick)))
        elif kind == "view":
            instructions.append((draw(st.sampled_from(VIEWS)), draw(pick)))
        elif kind == "detach":
            instructions.append(("detach", draw(pick)))
        elif kind == "hook":
            instructions.append(("hook", draw(pick), draw(st.sampled_from(HOOKS))))
        else:
            instructions.append((draw(st.sampled_from(WRITES)), draw(pick), draw(pick)))
        values += kind not in ("hook", "write")
    pick = st.integers(0, values - 1)
    # The last value is usually a root, so that most programs have a graph of some depth.
    roots = tuple(dict.fromkeys([draw(st.sampled_from([values - 1, values - 1, draw(pick)])),
                                 *draw(st.lists(pick, max_size=1))]))  # fmt: skip
    wanted = draw(st.none() | st.none() | st.lists(pick, min_size=1, max_size=2, unique=True))
    return Program(
        leaves, tuple(instructions), roots, None if wanted is None else tuple(wanted),
        draw(st.booleans()), draw(st.sampled_from([False, False, True])), draw(st.booleans()),
    )  # fmt: skip


def leaf(torch: Any, index: int, shape: str, requires_grad: bool) -> Any:
    """A leaf with values that depend only on its place."""
    size = SHAPES[shape]
    count = 1
    for n in size:
        count *= n
    values = [((7 * k + 3 * index) % 11 - 5) / 8 for k in range(count)]
    made = torch.tensor(values, dtype=torch.float64).reshape(size).clone()
    return made.requires_grad_(requires_grad)


def step(torch: Any, values: list[Any], instruction: tuple[Any, ...], log: list[Any]) -> None:
    """Run one instruction."""
    name, first, *rest = instruction
    x = values[first]
    if name in BINARY:
        values.append(getattr(torch, name)(x, values[rest[0]]))
    elif name in UNARY:
        values.append(getattr(torch, name)(x))
    elif name in VIEWS:
        values.append(view(x, name))
    elif name == "detach":
        values.append(x.detach())
        values[-1].cut = True
    elif name == "hook":
        hook(x, rest[0], log, len(values))
    else:
        other = values[rest[0]]
        # PyTorch crashes on some graphs made by giving a history to an alias made by detach().
        aliased = any(getattr(v, "cut", False) for v in values)
        write(x, name, other.detach() if aliased and not x.requires_grad else other)


def view(x: Any, name: str) -> Any:
    """A view of x; where the shape does not allow it, x seen as itself."""
    if name == "t" and x.dim() == 2:
        return x.t()
    if name == "row0" and x.dim() > 0:
        return x[0]
    if name == "slice" and x.dim() > 0:
        return x[1:] if x.shape[0] > 1 else x[:1]
    if name == "expand" and x.dim() == 1:
        return x.expand(2, x.shape[0])
    return x.reshape(-1)


def hook(x: Any, kind: str, log: list[Any], place: int) -> None:
    """Watch a gradient, or change it."""
    if not x.requires_grad or x._base is not None:  # PyTorch crashes on some hooks on stale views
        return
    if kind == "keep":
        x.retain_grad()
        return

    def seen(grad: Any) -> Any:
        log.append((place, kind, grad.detach().reshape(-1).tolist()))
        return grad * 2 if kind == "scale" else None

    x.register_hook(seen)


def write(x: Any, name: str, other: Any) -> None:
    """Write into x."""
    if name == "mul_":
        x.mul_(other)
    elif name == "add_":
        x.add_(other)
    elif name == "copy_":
        x.copy_(other)
    elif x.dim() > 0:
        x[0] = other
    else:
        x.fill_(0.25)


def outcome(torch: Any, program: Program) -> dict[str, Any]:
    """Everything a user can see of a program: values, gradients, hook calls, errors, graph."""
    log: list[Any] = []
    values = [leaf(torch, i, *spec) for i, spec in enumerate(program.leaves)]
    result: dict[str, Any] = {}
    try:
        for instruction in program.instructions:
            step(torch, values, instruction, log)
        roots = [values[i].sum() for i in program.roots]
        result["graph"] = [walk(root) for root in roots]
        for _ in range(2 if program.again else 1):
            result.setdefault("grads", []).append(differentiate(torch, program, values, roots))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        result["error"] = (type(error).__name__, str(error).partition("\n")[0])
    result["log"] = log
    result["values"] = [v.detach().reshape(-1).tolist() for v in values]
    result["versions"] = [v._version for v in values]
    result["leaf grads"] = [
        None if v.grad is None else v.grad.detach().reshape(-1).tolist()
        for v in values
        if v.is_leaf or v.retains_grad
    ]
    return result


def differentiate(torch: Any, program: Program, values: list[Any], roots: list[Any]) -> Any:
    """Run backward, or grad where inputs are asked for."""
    keep, create = program.retain_graph, program.create_graph
    if program.inputs is None:
        torch.autograd.backward(roots, retain_graph=keep or create, create_graph=create)
        return None
    found = torch.autograd.grad(
        roots, [values[i] for i in program.inputs], retain_graph=keep or create,
        create_graph=create, allow_unused=True,
    )  # fmt: skip
    if create:
        again = [g.sum() for g in found if g is not None and g.requires_grad]
        if again:
            torch.autograd.backward(again, retain_graph=True)
    return [None if g is None else g.detach().reshape(-1).tolist() for g in found]


def walk(root: Any) -> list[Any]:
    """The names and edges of a graph, in the order in which it is first reached."""
    if root.grad_fn is None:
        return []
    numbers, order = {root.grad_fn: 0}, [root.grad_fn]
    found = []
    for node in order:
        edges = []
        for following, nr in node.next_functions:
            if following is not None and following not in numbers:
                numbers[following] = len(order)
                order.append(following)
            edges.append((None if following is None else numbers[following], nr))
        found.append((type(node).__name__, tuple(edges)))
    return found
