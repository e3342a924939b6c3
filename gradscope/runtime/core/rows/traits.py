"""What a row says of its operation beside forward and derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class Lies(Trait):
    """How its results lie in memory, if the kernel does not see to it."""

    def __init__(self, rule: layouts.Rule) -> None:
        self.rule = rule


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


class Jvp(Trait):
    """How its tangent is written out: a formula, in the words of derivatives.

    `<input>_t` is an input's tangent, None if it has none. See Note [Tangents from rows] in
    autograd/forward/jvp.py.
    """

    def __init__(self, by: Callable[..., Any]) -> None:
        self.by = by


class Attaches(Trait):
    """A view that is made one of its input by a function of its own; `turns`: with these bits."""

    def __init__(self, by: Callable[..., None], turns: Any = None) -> None:
        self.by = by
        self.turns = turns


class _Names(Trait):
    """Some inputs, options or outputs, by their names."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Tensors(_Names):
    """Inputs that are tensors but get no gradient (an index, a mask)."""


class NumberInputs(_Names):
    """Inputs that are plain numbers, where the same name means a tensor elsewhere (`self`)."""


class Sequences(_Names):
    """Inputs that are sequences of tensors."""


class HoldsTensors(_Names):
    """Options that are sequences of tensors (or None); a node keeps them like its inputs."""


class Hidden(_Names):
    """What a node keeps without showing it as `_saved_*`: PyTorch keeps it elsewhere."""


class Outputs(_Names):
    """Names of several outputs; `without` of them get no gradient."""

    def __init__(self, *names: str, without: tuple[str, ...] = ()) -> None:
        super().__init__(*names)
        self.without = without


class Joint(_Names):
    """One formula, which returns the gradients of several inputs, in order."""

    def __init__(self, *names: str, by: Callable[..., Any]) -> None:
        super().__init__(*names)
        self.by = by


class Constants(Trait):
    """Saved options that a node shows, and that are the same in every call of this overload."""

    def __init__(self, **options: Any) -> None:
        self.values = tuple(options.items())


class Refused(Trait):
    """Kinds of dtype (NumPy's letters) it does not know; {kind} in the text is their name.

    `given`: asked of what the user gave, not of what promotion made of it. `by_numpy`: NumPy
    refuses them too, so that the short road need not look.
    """

    def __init__(
        self,
        kinds: str,
        text: str,
        *,
        given: bool = False,
        by_numpy: bool = False,
        error: type[Exception] = NotImplementedError,
    ) -> None:
        self.kinds = kinds
        self.text = text
        self.given = given
        self.by_numpy = by_numpy
        self.error = error


class Named(Trait):
    """The overload's name, where PyTorch has several: `Scalar`, `Tensor`, `dim`."""

    def __init__(self, overload: str) -> None:
        self.overload = overload


# How rows write them.
hidden, holds, numbers, sequence, tensors = Hidden, HoldsTensors, NumberInputs, Sequences, Tensors
joint, jvp, outputs, overload, refuses, shows = Joint, Jvp, Outputs, Named, Refused, Constants
