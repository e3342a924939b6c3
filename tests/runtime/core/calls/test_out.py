"""`out=` of every function that takes it: what is written, what is refused, and with what words."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from gradscope import runtime
from tests.runtime import oracle
from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.core.calls.out_calls import FUNCTIONS, call_of, sample_of
from tests.runtime.oracle import Engine, array_of, flat, is_tensor

pytestmark = pytest.mark.filterwarnings("ignore")

LONG = {
    "RuntimeError: unsupported operation: some elements of the input tensor and the written-to "
    "tensor refer to a single memory location. Please clone() the tensor before performing the "
    "operation.": "refused: overlaps",
    "RuntimeError: unsupported operation: more than one element of the written-to tensor refers "
    "to a single memory location. Please clone() the tensor before performing the operation.":
        "refused: expanded",
    "RuntimeError: {name}(): functions with out=... arguments don't support automatic "
    "differentiation, but one of the arguments requires grad.": "refused: requires grad",
    "RuntimeError: Attempting to copy from device cpu to device meta, but cross-device copies are "
    "not allowed!": "refused: elsewhere",
}  # fmt: skip

DTYPES = ("float32", "float64", "complex128", "int64", "bool")
Make = Callable[[Any], Any]
Ask = Callable[[], str]

UNASKED = {
    # PyTorch writes wrong numbers: as if it were contiguous (fftfreq where it is sliced), or over
    # what it has still to read
    "fft.fftfreq": "complex128, int64, bool, sliced",
    "linalg.matmul": "is input 1",
    "narrow_copy": "expanded, sliced, transposed",
    # it computes in the dtype of `out`, and has no kernel for that, or fails an assertion
    "arange": "complex128",
    "fft.rfftfreq": "complex128, int64, bool",
    "ldexp": "float32, complex128",
    "nanmean": "bool, complex128, int64",
    "nansum": "bool, complex128, int64",
    "range": "bool, complex128",
    "std": "complex128",
    "var": "complex128",
    # there is no kernel for tensors without numbers, and it says which; or it does not look
    "geqrf": "on meta",
    "histogram": "on meta",
    "linalg.lstsq": "on meta, empty",
    "linalg.solve_triangular": "on meta",
    "masked_select": "on meta",
    # of two that are wrong it names the other
    "frexp": "float64",
    "heaviside": "complex128",
    "kthvalue": "float64",
    "mode": "float64",
    # it computes in the default dtype, and says so
    "mean": "bool, int64",
    # it makes `out` anew: `cannot resize variables that require grad`, and two writes are counted
    "empty": "requires grad, requires grad (unrecorded)",
    "randn": "requires grad, requires grad (unrecorded), empty, of another shape",
    # it writes with `copy_`, of which it then speaks
    "svd": "requires grad",
    # strides of matrices of other shapes, as LAPACK leaves them (lstsq's where it was empty)
    "linalg.ldl_solve": "of another shape, empty",
    # there it does record a gradient through complex numbers, which cannot be followed
    "_conj_copy": "input 0 requires grad",
    "view_as_complex_copy": "input 0 requires grad",
}
"""Where PyTorch says or does something else, which ours does not follow, and why."""

COUNTED = frozenset({"kron", "nanmean", "split_with_sizes_copy", "svd", "unbind_copy"})
"""PyTorch counts no write, or several."""

CRASHES = frozenset({"linalg.svd", "linalg.svdvals", "svd"})
"""PyTorch writes past the end of an `out` of another dtype here."""
RANDOM = frozenset({"bernoulli", "normal", "rand", "randint", "randn", "randperm", "multinomial"})
"""What PyTorch draws depends on how `out` lies, and on its dtype."""


class Asked:
    """One function on one engine, with many tensors as `out`."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.torch, self.engine, self.name = engine.module, engine, name
        function, args, kwargs = self.call()
        self.plain = function(*args, **kwargs)

    def call(self) -> Any:
        made = call_of(self.engine, self.name, sample_of(self.name))
        assert made is not None
        return made

    def inputs(self) -> Iterator[tuple[Any, Any]]:
        """Each call anew, with one of its tensors."""
        for place, _ in enumerate(list(tensors_in(self.call()[1:]))):
            call = self.call()
            yield call, list(tensors_in(call[1:]))[place]

    def outs(self, make: Make) -> Any:
        made = [make(each) for each in flat(self.plain)]
        return tuple(made) if isinstance(self.plain, tuple | list) else made[0]

    def zeros(self, like: Any, dtype: Any = None) -> Any:
        return self.torch.zeros(like.shape, dtype=dtype or like.dtype)

    def with_out(self, make: Make) -> str:
        return self.outcome(self.call(), self.outs(make))

    def undefined(self, written: Any) -> bool:
        return self.name in RANDOM | {"empty"} or bool(written.is_meta)

    def outcome(self, call: Any, out: Any) -> str:
        """What happens: `written`, and how that differs from a plain write; or what is said."""
        function, args, kwargs = call
        before = [(each._version, each.stride()) for each in flat(out)]
        self.torch.manual_seed(0)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                made = function(*args, **kwargs, out=out)
                made = out if made is None else made  # nothing comes back of a list
            except Exception as error:
                return shortened(error, self.name)
        found = ["written"]
        found += ["resized" for each in said if "was resized" in str(each.message)]
        for one, into, known, (version, stride) in zip(
            flat(made), flat(out), flat(self.plain), before, strict=True
        ):
            found += ["into another"] * (one is not into)
            if self.name not in COUNTED:
                found += [f"{into._version - version} times"] * (into._version != version + 1)
            found += [f"strides {tuple(into.stride())}"] * (tuple(into.stride()) != tuple(stride))
            found += ["other values"] * (not self.undefined(into) and not equal(into, known))
        return ", ".join(found)


def tensors_in(given: Any) -> Iterator[Any]:
    if is_tensor(given):
        yield given
    elif isinstance(given, dict):
        yield from tensors_in(list(given.values()))
    elif isinstance(given, list | tuple):
        for each in given:
            yield from tensors_in(each)


def exchanged(given: Any, old: Any, new: Any) -> Any:
    """The same arguments with another tensor in one place."""
    if given is old:
        return new
    if isinstance(given, dict):
        return {key: exchanged(each, old, new) for key, each in given.items()}
    if type(given) in (list, tuple):
        return type(given)(exchanged(each, old, new) for each in given)
    return given


def equal(found: Any, known: Any) -> bool:
    mine, plain = array_of(found), array_of(known)
    if mine.shape != plain.shape:
        return False
    plain = plain.real if mine.dtype.kind != "c" else plain
    with np.errstate(all="ignore"):
        return bool(np.allclose(mine, plain.astype(mine.dtype), 1e-4, 1e-5, equal_nan=True))


def shortened(error: Exception, name: str) -> str:
    kind = next(each for each in type(error).__mro__ if each.__module__ == "builtins")
    text = f"{kind.__name__}: {str(error).partition(chr(10))[0]}"
    own = text.replace(f"{name.replace('.', '_')}()", "{name}()")
    return LONG.get(own, text)


def differentiable(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


# -- what is asked of each ---------------------------------------------------------------------


def layouts(asked: Asked) -> Iterator[tuple[str, Ask]]:
    """How the tensor lies that is written to."""
    zeros = asked.torch.zeros
    backwards = lambda shape: tuple(reversed(range(len(shape))))  # noqa: E731
    makers: dict[str, Make] = {
        "right": asked.zeros,
        "empty": lambda p: zeros(0, dtype=p.dtype),
        "of another shape": lambda p: zeros((*p.shape, 2), dtype=p.dtype),
        "expanded": lambda p: zeros((), dtype=p.dtype).expand(p.shape),
        "transposed": lambda p: zeros(tuple(reversed(p.shape)), dtype=p.dtype).permute(
            backwards(p.shape)
        ),
        "sliced": lambda p: zeros((*p.shape, 2), dtype=p.dtype)[..., 0],
        "on meta": lambda p: zeros(p.shape, dtype=p.dtype, device="meta"),
    }
    for what, make in makers.items():
        yield what, partial(asked.with_out, make)


def dtypes(asked: Asked) -> Iterator[tuple[str, Ask]]:
    if asked.name in CRASHES | RANDOM:
        return
    for name in DTYPES:
        dtype = getattr(asked.torch, name)
        yield name, partial(asked.with_out, partial(asked.zeros, dtype=dtype))


def gradients(asked: Asked) -> Iterator[tuple[str, Ask]]:
    """`out` or an input requires grad, where history is recorded and where it is not."""

    def requiring(like: Any) -> Any:
        return asked.zeros(like).requires_grad_(differentiable(like))

    for recorded in (True, False):
        where = "" if recorded else " (unrecorded)"
        with asked.torch.set_grad_enabled(recorded):
            yield f"requires grad{where}", partial(asked.with_out, requiring)
            for place, (call, tensor) in enumerate(asked.inputs()):
                if differentiable(tensor):
                    tensor.requires_grad_(True)
                    yield (
                        f"input {place} requires grad{where}",
                        partial(asked.outcome, call, asked.outs(asked.zeros)),
                    )


def memory(asked: Asked) -> Iterator[tuple[str, Ask]]:
    """`out` is an input, or shares memory with it."""
    first = next(flat(asked.plain))
    for place, (call, tensor) in enumerate(asked.inputs()):
        if tensor.dtype != first.dtype or not tensor.numel():
            continue

        def outs(one: Any) -> Any:
            made = [one, *map(asked.zeros, list(flat(asked.plain))[1:])]
            return tuple(made) if isinstance(asked.plain, tuple | list) else one

        if tensor.shape == first.shape:
            yield f"is input {place}", partial(asked.outcome, call, outs(tensor))
        function, args, kwargs = asked.call()
        given = list(tensors_in((args, kwargs)))[place]
        room = asked.torch.zeros(max(given.numel(), first.numel()) + 1, dtype=given.dtype)
        source = room[: given.numel()].view(given.shape)
        source.copy_(given)
        into = outs(room[1 : 1 + first.numel()].view(first.shape))
        shared = (function, exchanged(args, given, source), exchanged(kwargs, given, source))
        # What is written then is not defined.
        yield (
            f"overlaps input {place}",
            lambda shared=shared, into=into: asked.outcome(shared, into).partition(",")[0],
        )


TOPICS = {each.__name__: each for each in (layouts, dtypes, gradients, memory)}


@as_pytorch_answered(
    {f"out/{topic}": {name: (topic, name) for name in FUNCTIONS} for topic in TOPICS}
)
def test_out_is_written_and_refused_as_in_pytorch(torch: Any, asked: tuple[str, str]) -> Any:
    """Each outcome, and what leads to it."""
    topic, name = asked
    found: dict[str, list[str]] = {}
    engine = oracle.ours() if torch is runtime else oracle.theirs()
    for what, ask in TOPICS[topic](Asked(engine, name)):
        if what in UNASKED.get(name, "").split(", "):
            continue
        found.setdefault(ask(), []).append(what)
    return dict(sorted(found.items()))
