"""Traits: what a row declares of its operation besides forward and derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.core.rows import layouts


class Trait:
    """A property that a row declares of its operation."""


PROMOTES = Trait()
"""Its tensors are promoted to one dtype by PyTorch's rules."""
FLOATS = Trait()
"""Integers are converted to the default floating dtype."""
MATRICES = Trait()
"""Tensors that are not matrices take the general path."""
COMPARES = Trait()
"""Its tensors are promoted to one dtype; its result has another (bool), and no gradient."""
LINEAR = Trait()
"""Linear in all differentiable inputs together: the tangent is the operation on their tangents."""
ELEMENTWISE = Trait()
"""Elementwise with broadcasting: a derivative maps tangents as it maps gradients."""
PRODUCT = Trait()
"""Linear in each input separately: the tangent is the sum of calls with one tangent each."""
REDUCES = Trait()
"""Each input element contributes to one element of the result: the tangent is the derivative there
times the input's tangent, summed as the operation sums.
"""
TRANSPOSED = Trait()
"""Its tangent is computed by differentiating its backward by the incoming gradient."""
UNKNOWN = Trait()
"""It has no derivative, neither backward nor forward."""
IN_STORAGE = Trait()
"""A view defined by offsets in its input's storage, not by dims of its input."""
REPLAYED = Trait()
"""A view that is called again to create its history, after a write to its base."""
BY_HAND = Trait()
"""Its complex derivative is written out: not conj(formula(conj(grad)))."""
F_ONLY = Trait()
"""In `nn.functional` only."""
METHOD_ONLY = Trait()
"""A method of tensors only."""
FUNCTION_ONLY = Trait()
"""A function only."""
GAPS = Trait()
"""Some outputs may be None; its formula accepts None for an undefined gradient."""
INTERNAL = Trait()
"""Not public: a part of another operation."""
TENSORS_ONLY = Trait()
"""Its second input may not be a Python number."""


class Lies(Trait):
    """The memory layout of its results, if the kernel does not ensure it."""

    def __init__(self, rule: layouts.Rule) -> None:
        self.rule = rule


ROW_BY_ROW = Lies(layouts.row_by_row)
AS_OPERANDS = Lies(layouts.as_operands)
AS_THE_FIRST = Lies(layouts.as_the_first)
AS_CHANNELS = Lies(layouts.as_channels)


def rule_of(traits: Sequence[Trait]) -> layouts.Rule:
    """The layout rule of a row's results."""
    return next((t.rule for t in traits if isinstance(t, Lies)), layouts.as_operands)


def attaches(traits: Sequence[Trait]) -> Callable[..., None] | None:
    """The function that makes the results of a row views, if it has its own."""
    return next((t.by for t in traits if isinstance(t, Attaches)), None)


def asks_rule(forward: Callable[..., Any], traits: Sequence[Trait], kind: str) -> str:
    """When a row's rule is applied: a ufunc of one operand follows it automatically."""
    if kind != "plain":
        return ""
    if any(isinstance(t, Lies) for t in traits):
        return "always"
    pointwise = ELEMENTWISE in traits or COMPARES in traits
    return "odd" if pointwise and getattr(forward, "nin", 2) > 1 else ""


class Jvp(Trait):
    """The formula of its tangent, in the words of derivatives.

    `<input>_t` is an input's tangent, None if it has none. See Note [Tangents from rows] in
    autograd/forward/jvp.py.
    """

    def __init__(self, by: Callable[..., Any]) -> None:
        self.by = by


class Attaches(Trait):
    """A view that is attached to its input by its own function; `turns`: with these bits."""

    def __init__(self, by: Callable[..., None], turns: Any = None) -> None:
        self.by = by
        self.turns = turns


class _Names(Trait):
    """Some inputs, options or outputs, by name."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Tensors(_Names):
    """Inputs that are tensors but get no gradient (an index, a mask)."""


class NumberInputs(_Names):
    """Inputs that are plain numbers, where the same name elsewhere is a tensor (`self`)."""


class Sequences(_Names):
    """Inputs that are sequences of tensors."""


class HoldsTensors(_Names):
    """Options that are sequences of tensors (or None). A node saves them like inputs."""


class Hidden(_Names):
    """Saved values that are not shown as `_saved_*`: PyTorch stores them elsewhere."""


class Outputs(_Names):
    """Names of several outputs; those in `without` get no gradient."""

    def __init__(self, *names: str, without: tuple[str, ...] = ()) -> None:
        super().__init__(*names)
        self.without = without


class Joint(_Names):
    """One formula that returns the gradients of several inputs, in order."""

    def __init__(self, *names: str, by: Callable[..., Any]) -> None:
        super().__init__(*names)
        self.by = by


class Constants(Trait):
    """Saved options with the same value in every call of this overload."""

    def __init__(self, **options: Any) -> None:
        self.values = tuple(options.items())


class Refused(Trait):
    """Unsupported kinds of dtype (NumPy's letters); {kind} in the text is their name.

    `given`: checked before type promotion. `by_numpy`: NumPy refuses them too, so the fast path
    need not check.
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
