"""Write the signatures.txt of core/errors/arguments: which arguments PyTorch's functions take.

    python tools/docs/signatures.py            # write it, from the stubs of the installed PyTorch
    python tools/docs/signatures.py --check    # say whether it is up to date

A line is one way to call a function of the top module, of `nn.functional` (`nn.gelu`), or, with
just a dot before its name, a method: `.sum(ints1? dim, bool keepdim=False, *, dtype? dtype=None)`.
With a ~ it is the way in which a function of `nn.functional`, written in Python, passes its
arguments on.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

CORE = Path(__file__).resolve().parents[2] / "gradscope" / "runtime" / "core"
HERE = CORE / "errors" / "arguments"
TABLE = HERE / "signatures.txt"

KINDS = {
    "Tensor": "Tensor", "Tensor | Number | _complex": "operand",
    "Tensor | Number | _complex | torch.SymInt | torch.SymFloat": "operand",
    "Tensor | Number | torch.SymInt | torch.SymFloat": "operand", "Tensor | Number": "operand",
    "_int": "int", "int": "int", "_int | SymInt": "int", "_bool": "bool", "bool": "bool",
    "_float": "float", "float": "float", "str": "str", "Number | _complex": "Number",
    "Number": "Number", "_dtype": "dtype", "Generator": "Generator", "_layout": "layout",
    "DeviceLikeType": "device", "memory_format": "format", "torch.memory_format": "format",
    "tuple[Tensor, ...] | list[Tensor]": "Tensors", "list[Tensor]": "Tensors",
    "Tensor | tuple[Tensor, ...] | list[Tensor]": "out",
    "Sequence[_int | SymInt]": "ints", "_size": "ints", "Sequence[int]": "ints",
    "_int | _size": "ints1", "_int | SymInt | Sequence[_int | SymInt]": "ints1",
    "Sequence[Number | _complex]": "Numbers", "Sequence[_float]": "floats",
    "Sequence[float]": "floats", "tuple[_int, ...]": "ints", "_device | _int | str": "device",
}  # fmt: skip

NAMED = frozenset({"None", "list[str | None]"})
"""Kinds that belong to ways which users hardly know of: dims with names, and no dim at all."""


class Taken(NamedTuple):
    """One parameter."""

    name: str
    kind: str
    default: str | None
    by_name: bool

    def __str__(self) -> str:
        default = "" if self.default is None else f"={self.default}"
        return f"{self.kind} {self.name}{default}"


def main() -> int:
    """Write the table, or say whether it is up to date."""
    text = "\n".join(lines()) + "\n"
    if "--check" in sys.argv:
        return int(TABLE.read_text(encoding="utf-8") != text)
    TABLE.write_text(text, encoding="utf-8")
    return 0


def lines() -> list[str]:
    """The table's lines, for what gradscope's runtime has too."""
    import torch

    import gradscope.runtime as ours

    stubs = Path(torch.__file__).parent / "_C"

    def body(name: str) -> list[ast.stmt]:
        return ast.parse((stubs / name).read_text(encoding="utf-8")).body

    base = next(
        node
        for node in body("__init__.pyi")
        if isinstance(node, ast.ClassDef) and node.name == "TensorBase"
    )
    found = {
        line
        for name, line in _ways(body("_VariableFunctions.pyi"))
        if hasattr(ours, name) and hasattr(torch, name) and not _in_python(getattr(torch, name))
    }
    for home in (torch.linalg, torch.fft, torch.special):
        mine = getattr(ours, home.__name__.removeprefix("torch."))
        for name in dir(home):
            if hasattr(mine, name) and not _in_python(getattr(home, name)):
                found |= set(_schemas(f"{mine.__name__.rpartition('.')[2]}_{name}"))
    functional = torch.nn.functional
    for name in dir(functional):
        known = getattr(functional, name)
        if not hasattr(ours.nn.functional, name) or not callable(known) or name[0] == "_":
            continue
        if getattr(torch, name, None) is known:
            found |= {f"nn.{line}" for line in found if line.startswith(f"{name}(")}
        elif not _in_python(known) or name in PASSED_ON:
            found |= {f"{'~' if _in_python(known) else 'nn.'}{line}" for line in _schemas(name)}
    found |= {
        f".{line}"
        for name, line in _ways(base.body)
        if hasattr(ours.Tensor, name) and not _in_python(getattr(torch.Tensor, name))
    }
    return sorted(found, key=lambda line: (line.partition("(")[0], line))


JIT_KINDS = {
    "Tensor": "Tensor", "int": "int", "bool": "bool", "str": "str", "number": "Number",
    "float": "float", "List[int]": "ints", "List[Tensor]": "Tensors",
}  # fmt: skip

PASSED_ON = frozenset({
    "batch_norm", "elu", "glu", "group_norm", "hardtanh", "layer_norm", "leaky_relu", "pad",
})  # fmt: skip
"""Functions written in Python that pass their arguments on before they look at any."""


def _schemas(name: str) -> Iterator[str]:
    """The ways of a function that has no stub, from the schemas of its operator."""
    import torch

    known = torch._C._jit_get_schemas_for_operator(f"aten::{name}")  # noqa: SLF001
    for schema in known:
        parts, starred = [], False
        names = {argument.name for argument in schema.arguments}
        if "out" in names or schema.overload_name.endswith("out") or names & {"L", "U"}:
            continue
        for argument in schema.arguments:
            kind = str(argument.type)
            optional = kind.startswith("Optional[")
            kind = kind.removeprefix("Optional[").removesuffix("]") if optional else kind
            kind = "dtype" if argument.name == "dtype" else JIT_KINDS.get(kind, "")
            if not kind:
                return
            if kind == "ints" and argument.N:
                kind = "ints1"
            if argument.kwarg_only and not starred:
                parts, starred = [*parts, "*"], True
            default = f"={argument.default_value}" if argument.has_default_value() else ""
            shown = "input" if argument.name == "self" else argument.name
            parts.append(f"{kind}{'?' if optional else ''} {shown}{default.replace(', ', ',')}")
        yield f"{name}({', '.join([*parts, *([] if starred else ['*']), 'Tensor? out=None'])})"


def _in_python(function: Any) -> bool:
    return isinstance(function, FunctionType)


def _ways(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The name of each function and one way to call it; of all functions that can be told."""
    ways: dict[str, list[tuple[Taken, ...]]] = {}
    untold = set()
    for node in body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        if (
            node.args.vararg is not None
        ):  # sizes one by one: the way that takes them as one is there
            continue
        way = _parameters(node)
        if way is None and _is_named(node):
            continue
        if way is None:
            untold.add(node.name)
        elif not _is_old(way):
            ways.setdefault(node.name, []).append(way)
    for name, known in ways.items():
        if name not in untold:
            by_hand = [way for way in known if all(p.name != "layout" for p in way)]
            for way in _told_apart(by_hand or known):
                yield name, f"{name}({_text(way)})"


def _told_apart(ways: list[tuple[Taken, ...]]) -> Iterable[tuple[Taken, ...]]:
    """One of those ways that differ only in what may be given by name."""
    kept: dict[tuple[Taken, ...], tuple[Taken, ...]] = {}
    for way in ways:
        kept.setdefault(tuple(p for p in way if not p.by_name or p.default is None), way)
    return kept.values()


def _parameters(node: ast.FunctionDef) -> tuple[Taken, ...] | None:
    given = node.args
    names = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(names) - len(given.defaults)) + list(given.defaults)
    pairs = [(*pair, False) for pair in zip(names, defaults, strict=True)]
    pairs += [(*pair, True) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    taken = []
    for name, default, by_name in pairs:
        if name.annotation is None:
            continue  # self
        text = ast.unparse(name.annotation)
        kind = KINDS.get(text.removesuffix(" | None"))
        if kind is None:
            return None
        kind += "?" if text.endswith("| None") else ""
        shown = None if default is None else ast.unparse(default).replace(", ", ",")
        taken.append(Taken(name.arg.removesuffix("_"), kind, shown, by_name))
    return tuple(taken)


def _is_named(node: ast.FunctionDef) -> bool:
    given = [*node.args.args, *node.args.kwonlyargs]
    return any(a.annotation is not None and ast.unparse(a.annotation) in NAMED for a in given)


def _is_old(way: tuple[Taken, ...]) -> bool:
    """Whether a way to call is one of those that PyTorch takes but does not speak of any more."""
    return any(taken[:2] == ("self", "Tensor") for taken in way) or (
        len(way) > 1 and way[0].name in {"alpha", "beta"}
    )


def _text(way: tuple[Taken, ...]) -> str:
    before = [str(taken) for taken in way if not taken.by_name]
    by_name = [str(taken) for taken in way if taken.by_name]
    return ", ".join([*before, *(["*"] if by_name else []), *by_name])


if __name__ == "__main__":
    sys.exit(main())
