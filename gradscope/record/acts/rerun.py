"""Runs the forward of a custom Function again and compares its gradients with those returned."""

from __future__ import annotations

import inspect
import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter
from weakref import ref

import numpy as np

from gradscope.record.acts.kept.kept_arrays import KeptArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gradscope.record.acts.of_functions import FunctionCall

    Doubles = NDArray[np.float64]

TOLERANCES = {"float64": 1e-6, "float32": 2e-3}
COARSE = 0.05
"""Largest relative difference for other dtypes."""

COPIES = ("AccumulateGrad", "Alias", "Clone", "Copy", "Mul", "Div", "View", "Reshape", "Expand")
"""Nodes of forwards that return their input."""


class Ctx:
    """The ctx of a forward that is run again: accepts and stores everything."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.materialize_grads = True

    def _takes(self, *_given: Any) -> None:
        """Ignore the call."""

    save_for_backward = save_for_forward = mark_dirty = mark_non_differentiable = _takes
    set_materialize_grads = mark_shared_storage = _takes


def compared(torch: Any, function: Any, call: FunctionCall) -> list[dict[str, Any]]:
    """Results for each input that needs a gradient; none, if they cannot be determined."""
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return [_not_checked("it may wait for other processes")]
    with _aside(torch, call.random):
        try:
            return _compared(torch, function, call)
        except Exception as error:  # noqa: BLE001  the program's own forward runs here
            return [_not_checked(f"its forward raised {type(error).__name__} when run again")]


def _not_checked(why: str) -> dict[str, Any]:
    return {"found": "not checked", "why": why}


@contextmanager
def _aside(torch: Any, random: Any) -> Iterator[None]:
    """A context in which output is discarded, and random numbers are those of the call."""
    after = torch.get_rng_state()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), catch_warnings():
            simplefilter("ignore")
            torch.set_rng_state(random)
            yield
    finally:
        torch.set_rng_state(after)


def _compared(torch: Any, function: Any, call: FunctionCall) -> list[dict[str, Any]]:
    leaves, passed = [], []
    gone = [each for each in call.given if isinstance(each, ref) and each() is None]
    if gone:
        return [_not_checked("an object that it received no longer exists")]
    with torch.enable_grad():
        for value, needs in zip(call.given, call.needs, strict=True):
            held: Any = value() if isinstance(value, ref) else value
            tensor = held.tensor(torch) if isinstance(held, KeptArray) else held
            if needs:
                leaves.append(tensor.requires_grad_())
                tensor = tensor * 1  # it may be written to in place
            passed.append(tensor)
        separate = function.setup_context is not torch.autograd.Function.setup_context
        ctx = () if separate else (Ctx(tuple(call.needs)),)
        made = function.forward(*ctx, *passed)
    outputs = list(made) if isinstance(made, tuple) else [made]
    if not _are_the_same(torch, outputs, call.outputs):
        return [_not_checked("its forward returns other results when run again")]
    if _is_identity(call) and _is_no_more_than_a_copy(outputs):
        return [_not_checked("its forward returns its input")]
    roots, gradients = [], []
    for output, gradient in zip(outputs, call.gradients or (), strict=True):
        if gradient is not None and getattr(output, "requires_grad", False):
            roots.append(output)
            gradients.append(gradient.tensor(torch))
    if not roots:
        return [_not_checked("its forward has no derivative of its own")]
    derived = torch.autograd.grad(roots, leaves, gradients, allow_unused=True)
    places = [place for place, needs in enumerate(call.needs) if needs]
    names = _names(function, separate=separate)
    found = []
    for place, own in zip(places, derived, strict=True):
        name = names[place] if place < len(names) else f"input {place}"
        returned = (call.returned or [])[place] if place < len(call.returned or []) else None
        found.append({"place": place, "input": name, **_verdict(torch, own, returned)})
    return found


def _are_the_same(torch: Any, outputs: list[Any], before: list[Any]) -> bool:
    if len(outputs) != len(before):
        return False
    for output, kept in zip(outputs, before, strict=True):
        if kept is None:
            continue
        if not isinstance(output, torch.Tensor) or tuple(output.shape) != kept.shape:
            return False
        one, other = _doubles(torch, output), _doubles(torch, kept.tensor(torch))
        if not np.allclose(one, other, rtol=1e-3, atol=1e-6, equal_nan=True):
            return False
    return True


def _is_identity(call: FunctionCall) -> bool:
    """Whether the forward returns its input: then a different gradient is intended."""
    given = [
        (each.data, each.shape) for each, needs in zip(call.given, call.needs, strict=True) if needs
    ]
    return any((out.data, out.shape) in given for out in call.outputs if out is not None)


def _is_no_more_than_a_copy(outputs: list[Any]) -> bool:
    """Whether that is true for all values, and not only for these, as for `x.clamp(-1, 1)`."""
    waiting = [each.grad_fn for each in outputs if getattr(each, "requires_grad", False)]
    while waiting:
        node = waiting.pop()
        if node is not None and not node.name().partition("Backward")[0].endswith(COPIES):
            return False
        waiting += [] if node is None else [following for following, _ in node.next_functions]
    return True


def _names(function: Any, *, separate: bool) -> list[str]:
    return list(inspect.signature(function.forward).parameters)[0 if separate else 1 :]


def _verdict(torch: Any, own: Any, returned: KeptArray | None) -> dict[str, Any]:
    if own is None:
        return _not_checked("its forward has no derivative of its own there")
    wanted = _doubles(torch, own)
    finite = np.isfinite(wanted)
    wanted = np.where(finite, wanted, 0)
    if not wanted.any():
        return _not_checked("the derivative of its forward is 0 everywhere there")
    if returned is None:
        return {"found": "deviates", "returned": "None"}
    tensor = returned.tensor(torch)
    if tensor.shape != own.shape:
        try:
            tensor = tensor.sum_to_size(own.shape) * torch.ones_like(own)
        except RuntimeError:
            return _not_checked("the gradient has another shape")
    given = np.where(finite, _doubles(torch, tensor), 0)
    if not np.isfinite(given).all():
        return _not_checked("the returned gradient is not finite")
    return _beside(wanted, given, TOLERANCES.get(str(own.dtype).partition(".")[2], COARSE))


def _beside(wanted: Doubles, given: Doubles, tolerance: float) -> dict[str, Any]:
    """The difference between a returned gradient and the derived one."""
    scale = max(_norm(wanted), _norm(given))
    error = _norm(given - wanted) / scale
    if error <= tolerance:
        return {"found": "agrees"}
    slope = wanted != 0
    if _norm(np.where(slope, given - wanted, 0)) <= tolerance * scale:
        return {"found": "straight-through"}
    facts: dict[str, Any] = {"found": "deviates", "off": float(f"{error:.3g}")}
    times = float((given * wanted).sum() / (wanted * wanted).sum())
    if _norm(given - times * wanted) <= 10 * tolerance * scale:
        facts["times"] = float(f"{times:.4g}")
    return facts


def _norm(values: Doubles) -> float:
    return float(np.sqrt((values * values).sum()))


def _doubles(torch: Any, tensor: Any) -> Doubles:
    values: Doubles = tensor.detach().to(torch.float64).numpy()
    return values
