"""How much of PyTorch's own operator database gives the same on gradscope's runtime.

    python -m tests.runtime.core.ops.op_db.opinfo add sum nn.functional.gelu  # these, and what
    python -m tests.runtime.core.ops.op_db.opinfo --tier 1  # a tier, a line each
    python -m tests.runtime.core.ops.op_db.opinfo --tier 2 --failing  # only those that differ
    python -m tests.runtime.core.ops.op_db.opinfo add --dtypes float32,int64 --show 20

A sample passes when the result is the same (values, dtype, shape), and with a gradient also the
graph behind it (names, edges), the gradient and the gradient of the gradient.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from gradscope import runtime
from tests.runtime import oracle
from tests.runtime.core.ops.op_db import database

FLOATS = ("float64", "float32", "float16", "bfloat16")
ALL = (*FLOATS, "complex128", "complex64", "int64", "int32", "int16", "int8", "uint8", "bool")
GRADIENTS = frozenset({"float64", "complex128"})
UNSET = ("empty", "new_empty", "resize")
"""What these give is not defined but for its shape."""
TOLERANCES = {
    "float64": (1e-7, 1e-8), "complex128": (1e-7, 1e-8), "float32": (1e-4, 2e-5),
    "complex64": (1e-4, 2e-5), "float16": (1e-2, 4e-3), "bfloat16": (4e-2, 2e-2),
}  # fmt: skip


OPEN = {
    "mode": ("dim", "keepdim"), "sort": ("dim",), "argsort": ("dim",), "topk": ("k", "dim"),
    "kthvalue": ("k", "dim", "keepdim"), "msort": (),
}  # fmt: skip
"""What says where elements come from, of which any may be taken if several are equal."""


class Differs(Exception):
    """What is not the same, and where."""

    def __init__(self, stage: str, text: str) -> None:
        super().__init__(f"{stage}: {text}")
        self.stage = stage


class NotCarriedError(Exception):
    """A sample sees memory beside its tensors, of which their copies have none."""


@dataclass
class Tally:
    """How many samples of an operator passed, and what the others say."""

    name: str
    tier: int = 0
    passed: int = 0
    total: int = 0
    stages: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    absent: bool = False

    @property
    def share(self) -> float:
        return self.passed / self.total if self.total else 0.0

    def count(self, problem: Differs | None, where: str) -> None:
        self.total += 1
        if problem is None:
            self.passed += 1
            return
        self.stages[problem.stage] = self.stages.get(problem.stage, 0) + 1
        self.differences.append(f"{where} {problem}")


# -- one sample --------------------------------------------------------------------------------


def compare(found: Any, expected: Any, stage: str) -> None:
    """Raise where two results are not the same."""
    if oracle.is_tensor(expected):
        if not oracle.is_tensor(found):
            raise Differs(stage, f"{type(found).__name__} in place of a tensor")
        _compare_tensors(found, expected, stage)
    elif isinstance(expected, list | tuple):
        if not isinstance(found, list | tuple) or len(found) != len(expected):
            raise Differs(stage, f"{type(found).__name__} in place of {len(expected)} results")
        for mine, known in zip(found, expected, strict=True):
            compare(mine, known, stage)
    elif isinstance(expected, float | complex):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    elif str(found) != str(expected):
        raise Differs(stage, f"{found!r} in place of {expected!r}")


def _compare_tensors(found: Any, expected: Any, stage: str) -> None:
    for what in ("dtype", "shape"):
        mine, known = str(getattr(found, what)), str(getattr(expected, what))
        if mine != known:
            raise Differs(stage, f"{what} {mine} in place of {known}")
    relative, absolute = TOLERANCES.get(str(expected.dtype).removeprefix("torch."), (0.0, 0.0))
    mine, known = oracle.array_of(found), oracle.array_of(expected)
    if not known.size or np.array_equal(mine, known, equal_nan=known.dtype.kind in "fc"):
        return
    with np.errstate(all="ignore"):
        same = np.isclose(mine, known, relative, absolute, equal_nan=True)
    if not same.all():
        place = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
        wrong = int((~same).sum())
        values = f"{np.atleast_1d(mine)[place]} in place of {np.atleast_1d(known)[place]}"
        raise Differs(stage, f"{wrong} of {known.size} values, at {place} {values}")


@dataclass(frozen=True)
class Case:
    """One sample on one engine."""

    call: Callable[..., Any]
    input: Any
    args: Any
    kwargs: Any
    process: Callable[[Any], Any]
    module: Any

    def run(self) -> Any:
        self.module.manual_seed(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.call(self.input, *self.args, **self.kwargs)

    def wanted(self) -> list[Any]:
        given = (self.input, self.args, self.kwargs)
        return [t for t in database.tensors(given) if t.requires_grad]


def cases(info: Any, sample: Any) -> tuple[Case, Case]:
    import torch

    def made(carry: Callable[[Any], Any], call: Any, module: Any) -> Case:
        process = sample.output_process_fn_grad
        if module is runtime:
            process = database.rebound(process)
        given = (carry(sample.input), carry(sample.args), carry(sample.kwargs))
        return Case(call, *given, process, module)

    return (
        made(database.ours, database.our_function(info), runtime),
        made(database.theirs, info.op, torch),
    )


def check(info: Any, sample: Any, *, second: bool) -> str | None:
    """Raise where a sample gives something else; the node's name otherwise."""
    mine, known = cases(info, sample)
    try:
        expected = known.run()
    except RuntimeError as error:
        if "out of bounds for storage" in str(error):
            raise NotCarriedError from error
        raise
    try:
        found = mine.run()
        if not info.name.startswith(UNSET):
            found, expected = mine.process(found), known.process(expected)
            found, expected = _settled(info, mine, found), _settled(info, known, expected)
            compare(found, expected, "forward")
        else:
            compare([o.shape for o in database.tensors(found)],
                    [o.shape for o in database.tensors(expected)], "forward")  # fmt: skip
    except Differs:
        raise
    except Exception as error:
        raise Differs("forward", _told(error)) from error
    outputs = _differentiable(expected)
    if not outputs or not known.wanted():
        return None
    _check_graph(_differentiable(found), outputs)
    _check_gradients(mine, known, found, expected, second)
    return oracle.name_of(outputs[0].grad_fn) if outputs[0].grad_fn is not None else None


def _settled(info: Any, case: Case, result: Any) -> Any:
    """A result without what PyTorch leaves open: which of equal elements stands where."""
    if info.name not in OPEN or not case.input.dim() or case.kwargs.get("stable"):
        return result
    names = OPEN[info.name]
    options = dict(zip(names, case.args, strict=False)) | dict(case.kwargs)
    dim = options.get("dim", -1)
    indices = result[1] if isinstance(result, list | tuple) else result
    if not options.get("keepdim", "keepdim" not in names):
        indices = indices.unsqueeze(dim)
    chosen = case.input.detach().gather(dim, indices)
    return (result[0], chosen) if isinstance(result, list | tuple) else chosen


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:150]}"


def _differentiable(result: Any) -> list[Any]:
    return [t for t in database.tensors([result]) if t.requires_grad]


def _check_graph(found: list[Any], expected: list[Any]) -> None:
    mine, known = oracle.graph_of(found), oracle.graph_of(expected)
    if mine != known:
        names = [[name for name, _ in graph] for graph in (mine, known)]
        if names[0][:1] != names[1][:1]:
            raise Differs("node", f"{names[0][:1]} in place of {names[1][:1]}")
        raise Differs("graph", f"{names[0][:8]} in place of {names[1][:8]}")


def _check_gradients(mine: Case, known: Case, found: Any, expected: Any, second: bool) -> None:
    known_first, known_second = _gradients(known, expected, second)
    try:
        first, again = _gradients(mine, found, second and known_second is not None)
        compare(first, known_first, "gradient")
        if known_second is not None:
            compare(again, known_second, "second gradient")
    except Differs:
        raise
    except Exception as error:
        raise Differs("gradient", _told(error)) from error


def _gradients(case: Case, result: Any, second: bool) -> tuple[list[Any], list[Any] | None]:
    """The gradients of all inputs, and the gradients of those; None where there are none."""
    wanted = case.wanted()
    outputs = _differentiable(result)
    rng = np.random.default_rng(5)
    seeds = [_seed(case.module, rng, o) for o in outputs]
    grad = partial(case.module.autograd.grad, allow_unused=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not second:
            return list(grad(outputs, wanted, seeds)), None
        for seed in seeds:
            seed.requires_grad_(True)
        first = list(grad(outputs, wanted, seeds, create_graph=True))
        again = [g for g in first if g is not None and g.requires_grad]
        if not again:
            return first, []
        weights = [_seed(case.module, rng, g) for g in again]
        if case.module is runtime:
            return first, list(grad(again, [*wanted, *seeds], weights))
        with contextlib.suppress(RuntimeError):
            return first, list(grad(again, [*wanted, *seeds], weights))
        return first, None


def _seed(module: Any, rng: Any, output: Any) -> Any:
    array = oracle.array_of(output)
    values = rng.uniform(-1, 1, array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.uniform(-1, 1, array.shape)
    values = np.asarray(values).astype(array.dtype)
    return runtime.Tensor.from_array(values) if module is runtime else module.from_numpy(values)


# -- variants ----------------------------------------------------------------------------------


def check_inplace(info: Any, sample: Any) -> None:
    """The in-place twin: the same values written, the same count of writes."""
    mine, known = cases(info, sample)
    theirs = info.inplace_variant
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known.module.manual_seed(1)
            theirs(known.input, *known.args, **known.kwargs)
    except Exception as refused:
        return _check_refusal(info, mine, refused)
    try:
        written = database.our_inplace(info)
        assert written is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mine.module.manual_seed(1)
            written(mine.input, *mine.args, **mine.kwargs)
        compare(mine.input, known.input, "in place")
        if mine.input._version != known.input._version:
            version = f"{mine.input._version} writes in place of {known.input._version}"
            raise Differs("in place", version)
    except Differs:
        raise
    except Exception as error:
        raise Differs("in place", _told(error)) from error
    return None


def _check_refusal(info: Any, mine: Case, refused: Exception) -> None:
    try:
        written = database.our_inplace(info)
        if written is not None:
            written(mine.input, *mine.args, **mine.kwargs)
    except Exception as error:
        if type(error) is not type(refused):
            raise Differs("in place", f"{_told(error)} in place of {_told(refused)}") from error
        return
    raise Differs("in place", f"no error in place of {_told(refused)}")


def check_out(info: Any, sample: Any) -> None:
    """`out=`: the result written into tensors that are given."""
    import torch

    mine, known = cases(info, sample)
    expected = known.run()
    if not all(oracle.is_tensor(t) for t in oracle.flat(expected)):
        return
    many = isinstance(expected, tuple)
    into = [torch.empty_like(t) for t in oracle.flat(expected)]
    known.module.manual_seed(1)
    try:
        known.call(known.input, *known.args, **known.kwargs, out=tuple(into) if many else into[0])
    except TypeError:
        return  # the database says it takes `out=`, and it does not
    try:
        own = [database.ours(t).zero_() for t in into]
        mine.module.manual_seed(1)
        mine.call(mine.input, *mine.args, **mine.kwargs, out=tuple(own) if many else own[0])
        pair = (tuple(own), tuple(into)) if many else (own[0], into[0])
        found, expected = mine.process(pair[0]), known.process(pair[1])
        compare(_settled(info, mine, found), _settled(info, known, expected), "out")
    except Differs:
        raise
    except Exception as error:
        raise Differs("out", _told(error)) from error


def _given(sample: Any) -> tuple[Any, ...]:
    return sample.input, sample.args, sample.kwargs


def check_error(info: Any, wrong: Any) -> None:
    """A call that must be refused: the same type of error, the same first line."""
    sample = wrong.sample_input
    if any(str(t.device) != "cpu" for t in database.tensors(_given(sample))):
        return  # about devices there are none of here
    if any(t.dim() > 64 for t in database.tensors(_given(sample))):
        return  # more dims than NumPy has
    try:
        mine, known = cases(info, sample)
    except AttributeError:
        return  # a layout there is none of here
    try:
        known.run()
    except Exception as refused:
        expected = refused
    else:
        return
    if wrong.error_regex and not re.search(wrong.error_regex, str(expected)):
        return  # it was wrong because tensors share memory, which their copies do not
    try:
        mine.run()
    except Exception as error:
        texts = [str(e).partition("\n")[0] for e in (error, expected)]
        if type(error).__name__ != type(expected).__name__ or texts[0] != texts[1]:
            text = f"{_told(error)} in place of {_told(expected)}"
            raise Differs("error", text) from error
        return
    raise Differs("error", f"no error in place of {_told(expected)}")


# -- many samples ------------------------------------------------------------------------------


def supported(info: Any, dtypes: tuple[str, ...]) -> Iterator[Any]:
    import torch

    known = info.supported_dtypes("cpu")
    for name in dtypes:
        if getattr(torch, name) in known:
            yield getattr(torch, name)


def samples(info: Any, dtype: Any) -> Iterator[Any]:
    """The samples of an entry, the same whenever asked."""
    import torch

    torch.manual_seed(0)
    np.random.seed(0)
    name = str(dtype).removeprefix("torch.")
    wants = name in GRADIENTS and info.supports_autograd and dtype in _differentiated(info)
    with contextlib.suppress(StopIteration):
        yield from info.sample_inputs("cpu", dtype, requires_grad=wants)


def _differentiated(info: Any) -> Any:
    return info.supported_backward_dtypes("cpu")


def tally(
    name: str, dtypes: tuple[str, ...] = ALL, *, variants: bool = True, at_most: int | None = None
) -> Tally:
    """All samples of an operator, or of each dtype a few."""
    made = Tally(name, database.tiers().get(name, 0))
    for info in database.entries()[name]:
        try:
            database.our_function(info)
        except database.Absent:
            made.absent = True
            made.differences.append("there is no such operation")
            made.total += 1
            continue
        for dtype in supported(info, dtypes):
            _tally_dtype(made, info, dtype, variants, at_most)
        if variants:
            _tally_errors(made, info)
    return made


def spread(given: Iterator[Any], at_most: int | None) -> Iterator[tuple[int, Any]]:
    """All with their numbers; or some: the first, the second, the fourth, the eighth …"""
    import torch

    for number, sample in enumerate(given):
        if at_most is None or (number + 1).bit_count() == 1:
            yield number, sample
        else:  # the next one is drawn as if this one had been run
            torch.default_generator.manual_seed(1)
        if at_most is not None and (number + 1) >> (at_most - 1):
            return


def _tally_dtype(
    made: Tally, info: Any, dtype: Any, variants: bool, at_most: int | None = None
) -> None:
    kind = str(dtype).removeprefix("torch.")
    for number, sample in spread(samples(info, dtype), at_most):
        where = f"{info.variant_test_name or ''} {kind} #{number}".strip()
        problem = None
        try:
            node = check(info, sample, second=info.supports_gradgrad)
            if node:
                made.nodes.add(node)
            if variants:
                _check_variants(info, sample)
        except NotCarriedError:
            continue
        except Differs as found:
            problem = found
        made.count(problem, where)


def _check_variants(info: Any, sample: Any) -> None:
    plain = _without_gradients(sample)
    if info.inplace_variant is not None and not sample.broadcasts_input:
        check_inplace(info, plain)
    if info.supports_out and _takes_out(info) and not info.name.startswith(UNSET):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_out(info, plain)


def _takes_out(info: Any) -> bool:
    return not getattr(info.op, "__module__", "").startswith("torch.testing")


def _without_gradients(sample: Any) -> Any:
    def plain(value: Any) -> Any:
        return value.detach()

    return sample.transform(lambda t: plain(t) if hasattr(t, "detach") else t)


def _tally_errors(made: Tally, info: Any) -> None:
    if info.error_inputs_func is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, wrong in enumerate(info.error_inputs("cpu")):
            problem = None
            try:
                check_error(info, wrong)
            except Differs as found:
                problem = found
            except NotImplementedError:
                continue
            made.count(problem, f"error #{number}")


# -- the command -------------------------------------------------------------------------------


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tier", type=int)
    parser.add_argument("--dtypes", default=",".join(ALL))
    parser.add_argument("--show", type=int, default=6)
    parser.add_argument("--failing", action="store_true")
    parser.add_argument("--plain", action="store_true", help="no in-place, out= and errors")
    options = parser.parse_args(given)
    names = options.names or [n for n, t in database.tiers().items() if t == options.tier]
    unknown = [name for name in names if name not in database.entries()]
    passed = total = 0
    for name in (n for n in names if n not in unknown):
        found = tally(name, tuple(options.dtypes.split(",")), variants=not options.plain)
        passed, total = passed + found.passed, total + found.total
        if found.passed == found.total and options.failing:
            continue
        print(f"{name:40} {found.passed:5} of {found.total:5}  {found.stages or ''}", flush=True)
        for line in found.differences[: options.show]:
            print(f"    {line}", flush=True)
    print(f"{passed} of {total} samples")
    if unknown:
        print("not in the database:", " ".join(unknown))
    return int(passed != total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
