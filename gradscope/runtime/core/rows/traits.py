"""What a row says of its operation beside forward and derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradscope.runtime.core.rows import layouts


class Trait:
    """Something a row says about its operation beside forward and derivatives."""


PROMOTES = Trait()
"""Its tensors are brought to one dtype first, by PyTorch's rules."""
FLOATS = Trait()
"""Integers are brought to the default floating dtype first."""
MATRICES = Trait()
"""Tensors that are no matrices are left to the long way round."""
COMPARES = Trait()
"""Its tensors are brought to one dtype; its result has another (bool), and no gradient."""
LINEAR = Trait()
"""It is linear in all its differentiable inputs together: the tangent is it of their tangents."""
ELEMENTWISE = Trait()
"""Element by element (inputs broadcast): a derivative takes tangents as it takes gradients."""
PRODUCT = Trait()
"""It is linear in each input alone: the tangent is the sum of it with one tangent put in."""
REDUCES = Trait()
"""An element of an input takes part in one element of a result: its share of the tangent is the
derivative there times the input's tangent, and the shares are summed as the operation sums."""
TRANSPOSED = Trait()
"""Its tangent comes from differentiating its backward by the gradient that goes in."""
UNKNOWN = Trait()
"""Nobody knows a derivative of it, neither backward nor forward."""
IN_STORAGE = Trait()
"""A view that says where it looks by places in its input's storage, not by dims of its input."""
REPLAYED = Trait()
"""A view whose history is made anew, after a write to its base, by calling it again."""
BY_HAND = Trait()
"""Its complex derivative is written out: not conj(formula(conj(grad)))."""
F_ONLY = Trait()
"""It lives in `nn.functional` only."""
METHOD_ONLY = Trait()
"""It is a method of tensors only."""
FUNCTION_ONLY = Trait()
"""It is a function only."""
GAPS = Trait()
"""Of several outputs some may be None; its formula takes None for a gradient that never came."""
INTERNAL = Trait()
"""Users do not see it: a part of another operation."""
TENSORS_ONLY = Trait()
"""Its second input may not be a Python number."""


@dataclass(frozen=True)
class Lies(Trait):
    """How its results lie in memory, if the kernel does not see to it."""

    rule: layouts.Rule


ROW_BY_ROW = Lies(layouts.row_by_row)
AS_OPERANDS = Lies(layouts.as_operands)
AS_THE_FIRST = Lies(layouts.as_the_first)
AS_CHANNELS = Lies(layouts.as_channels)


def rule_of(traits: Sequence[Trait]) -> layouts.Rule:
    """The rule by which the results of a row lie."""
    return next((t.rule for t in traits if isinstance(t, Lies)), layouts.as_operands)


def attaches(traits: Sequence[Trait]) -> Callable[..., None] | None:
    """The function that makes the results of a row views, if it is one of its own."""
    return next((t.by for t in traits if isinstance(t, Attaches)), None)


def asks_rule(forward: Callable[..., Any], traits: Sequence[Trait], kind: str) -> str:
    """When a row's rule is asked: a ufunc of one operand keeps to it by itself."""
    if kind != "plain":
        return ""
    if any(isinstance(t, Lies) for t in traits):
        return "always"
    pointwise = ELEMENTWISE in traits or COMPARES in traits
    return "odd" if pointwise and getattr(forward, "nin", 2) > 1 else ""


@dataclass(frozen=True)
class Jvp(Trait):
    """How its tangent is written out: a formula, in the words of derivatives.

    `<input>_t` is an input's tangent, None if it has none.
    """

    by: Callable[..., Any]


@dataclass(frozen=True)
class Attaches(Trait):
    """A view that is made one of its input by a function of its own; `turns`: with these bits."""

    by: Callable[..., None]
    turns: Any = None


@dataclass(frozen=True)
class Tensors(Trait):
    """Inputs that are tensors but get no gradient."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Numbers(Trait):
    """Inputs that are plain numbers, where the same name means a tensor elsewhere (`self`)."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Outputs(Trait):
    """Names of several outputs; `without` of them get no gradient."""

    names: tuple[str, ...]
    without: tuple[str, ...] = ()
    structure: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Sequences(Trait):
    """The first input is a sequence of tensors."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Constants(Trait):
    """Options that are the same in every call of this overload, and that its node shows."""

    values: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Refused(Trait):
    """Kinds of dtype (NumPy's letters) it does not know, and what it says of them.

    `given`: asked of what the user gave, not of what promotion made of it. `by_numpy`: NumPy
    refuses them too, so that the short road need not look.
    """

    kinds: str
    text: str
    given: bool = False
    by_numpy: bool = False
    error: type[Exception] = NotImplementedError


@dataclass(frozen=True)
class Named(Trait):
    """The overload's name, where PyTorch has several: `Scalar`, `Tensor`, `dim`."""

    overload: str


@dataclass(frozen=True)
class Holds(Trait):
    """Options that are sequences of tensors (or None); a node keeps them like its inputs."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Hidden(Trait):
    """What a node keeps without showing it as `_saved_*`: PyTorch keeps it elsewhere."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Joint(Trait):
    """One formula for several inputs at once."""

    names: tuple[str, ...]
    by: Callable[..., Any]


# -- how rows write them -------------------------------------------------------------------------


def tensors(*names: str) -> Tensors:
    """These inputs are tensors without a gradient (an index, a mask)."""
    return Tensors(names)


def numbers(*names: str) -> Numbers:
    """These inputs are plain numbers, whatever their names."""
    return Numbers(names)


def outputs(*names: str, without: Sequence[str] = (), structure: Any = None) -> Outputs:
    """The operation returns these; a name in `without` is not differentiable."""
    return Outputs(names, tuple(without), structure)


def sequence(*names: str) -> Sequences:
    """These inputs are sequences of tensors."""
    return Sequences(names)


def holds(*names: str) -> Holds:
    """These options hold tensors (or None), which the node keeps like its inputs."""
    return Holds(names)


def hidden(*names: str) -> Hidden:
    """The node keeps these without showing them as `_saved_*`."""
    return Hidden(names)


def overload(name: str) -> Named:
    """PyTorch's name of this overload."""
    return Named(name)


def shows(**options: Any) -> Constants:
    """The node shows these saved options, whose values no call of this overload can change."""
    return Constants(tuple(options.items()))


def refuses(
    kinds: str,
    text: str,
    *,
    given: bool = False,
    by_numpy: bool = False,
    error: type[Exception] = NotImplementedError,
) -> Refused:
    """Dtypes of these kinds (NumPy's letters) are refused; {kind} in the text is their name."""
    return Refused(kinds, text, given, by_numpy, error)


def jvp(by: Callable[..., Any]) -> Jvp:
    """How the tangent is made, in full (Note [Tangents from rows] in autograd/forward/jvp.py)."""
    return Jvp(by)


def joint(*names: str, by: Callable[..., Any]) -> Joint:
    """`by` returns the gradients of all these inputs, in order."""
    return Joint(names, by)
