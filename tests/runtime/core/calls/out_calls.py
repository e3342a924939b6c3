"""A call of each function that takes `out=`: found among the samples of operations, or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

from gradscope.runtime.core.calls.extra_arguments.which_functions import NN_WITH_OUT, WITH_OUT
from tests.runtime import oracle
from tests.runtime.answers import held_samples
from tests.runtime.core.ops.op_db.families import CALLS, operation_of
from tests.runtime.oracle import Engine, Sample, is_tensor

MISSING = frozenset({"nonzero_static", "special.round", "sspaddmm"})
"""There are none of these."""

FUNCTIONS = sorted({*WITH_OUT, *(f"nn.functional.{name}" for name in NN_WITH_OUT)} - MISSING)

OVER_ROWS = """
    all amax amin any argmax argmin cummax cummin cumprod cumsum logcumsumexp logsumexp median
    nanmean nanmedian nansum prod std var
    """.split()  # noqa: SIM905
WRITTEN: dict[str, Callable[..., Any]] = {
    **{name: lambda t, x, name=name: getattr(t, name)(x, 1) for name in OVER_ROWS},
    "arange": lambda t, x: t.arange(4),
    "bitwise_not": lambda t, x: t.bitwise_not(x.long()),
    "conj_physical": lambda t, x: t.conj_physical(x),
    "empty": lambda t, x: t.empty((2, 3)),
    "eye": lambda t, x: t.eye(3),
    "full": lambda t, x: t.full((2, 3), 1.5),
    "hardshrink": lambda t, x: t.hardshrink(x),
    "index_reduce": lambda t, x: t.index_reduce(x, 0, t.tensor([2, 0]), x[:2] * 2, "prod"),
    "linspace": lambda t, x: t.linspace(0, 1, 5),
    "logspace": lambda t, x: t.logspace(0, 1, 5),
    "nonzero": lambda t, x: t.nonzero(x),
    "norm": lambda t, x: t.norm(x, 2, 1),
    "ones": lambda t, x: t.ones((2, 3)),
    "range": lambda t, x: t.range(0, 4),
    "scatter_reduce": lambda t, x: t.scatter_reduce(
        x, 0, t.tensor([[2, 0, 1, 1]]), x[:1] * 2, "sum"
    ),
    "special.gammainc": lambda t, x: t.special.gammainc(x.abs(), x.abs() + 1),
    "special.gammaincc": lambda t, x: t.special.gammaincc(x.abs(), x.abs() + 1),
    "special.multigammaln": lambda t, x: t.special.multigammaln(x.abs() + 2, 2),
    "threshold": lambda t, x: t.threshold(x, 0.1, 20.0),
    "vdot": lambda t, x: t.vdot(x[0], x[1]),
    "zeros": lambda t, x: t.zeros((2, 3)),
}
"""Of what the samples call as methods only."""


class Called(BaseException):
    """The function was called, so."""


class Watched:
    """An engine's module, in which a call of one function ends the sample."""

    def __init__(self, module: Any, wanted: str, path: str = "") -> None:
        self._module, self._wanted, self._path = module, wanted, path

    def __getattr__(self, name: str) -> Any:
        value, path = getattr(self._module, name), f"{self._path}{name}"
        if isinstance(value, ModuleType):
            return Watched(value, self._wanted, f"{path}.")
        if path != self._wanted:
            return value

        def called(*args: Any, **kwargs: Any) -> Any:
            if "out" in kwargs:
                return value(*args, **kwargs)
            raise Called(value, args, kwargs)

        return called


Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def call_of(engine: Engine, name: str, sample: Sample) -> Call | None:
    """The function and its arguments, which are made anew, as a sample calls it; if it does."""
    tensors = [engine.wrap(array) for array in oracle.arrays_for(sample, "float64")]
    engine.module.manual_seed(0)
    try:
        sample.call(Watched(engine.module, name), *tensors)
    except Called as called:
        function, args, kwargs = called.args
        return function, copied(args), copied(kwargs)
    except Exception:
        return None  # samples of what is not there
    return None


def copied(given: Any) -> Any:
    """The same with tensors of their own."""
    if is_tensor(given):
        return given.detach().clone()
    if type(given) in (list, tuple):
        return type(given)(copied(each) for each in given)
    return {key: copied(each) for key, each in given.items()} if type(given) is dict else given


@cache
def sample_of(name: str) -> Sample:
    """The first sample that calls the function."""
    if name in WRITTEN:
        return Sample(WRITTEN[name], (3, 4))
    ours = oracle.ours()
    return next(sample for sample in _samples(name) if call_of(ours, name, sample) is not None)


def _samples(name: str) -> Iterator[Sample]:
    under, last = name.replace(".", "_"), name.rpartition(".")[2]
    found = [
        (operation != name, operation, sample)
        for label, sample in [*CALLS, *held_samples.cases()]
        if (operation := operation_of(label)) in (name, under, last)
        or operation.startswith((f"{name}.", f"{under}."))
    ]
    yield from (sample for _, _, sample in sorted(found, key=lambda each: each[:2]))
