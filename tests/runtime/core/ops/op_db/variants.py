"""What a sample is tried as besides: a write in place, with `out=`, and calls to be refused."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from tests.runtime import oracle
from tests.runtime.core.ops.op_db import database
from tests.runtime.core.ops.op_db.one_sample import (
    Case,
    Differs,
    cases,
    check_run,
    compare,
    settled,
    told,
)


def check_inplace(info: Any, sample: Any) -> None:
    """The in-place twin: values, graph, gradients, the count of writes, refusals."""
    try:
        mine, known = (
            replace(case, call=partial(_on_a_copy, twin))
            for case, twin in zip(
                cases(info, sample), (database.our_inplace(info), info.inplace_variant), strict=True
            )
        )
        expected = known.run()
    except database.Absent as error:
        raise Differs("in place", told(error)) from error
    except Exception as refused:
        return _check_refusal(mine, refused)
    try:
        with suppress(NotImplementedError):  # acosh_ has no derivative in PyTorch, and others
            check_run(info, mine, known, expected, second=info.supports_gradgrad)
    except Differs as differs:
        raise Differs("in place", str(differs)) from differs
    if (found := mine.run()._version) != expected._version:
        raise Differs("in place", f"{found} writes in place of {expected._version}")
    return None


def _on_a_copy(twin: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Write to a copy: a leaf that asks for a gradient must not be written to."""
    copy = input.clone()
    twin(copy, *args, **kwargs)
    return copy


def _check_refusal(mine: Case, refused: Exception) -> None:
    try:
        mine.run()
    except Exception as error:
        if type(error) is not type(refused):
            raise Differs("in place", f"{told(error)} in place of {told(refused)}") from error
        return
    raise Differs("in place", f"no error in place of {told(refused)}")


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
        compare(settled(info, mine, found), settled(info, known, expected), "out")
    except Differs:
        raise
    except Exception as error:
        raise Differs("out", told(error)) from error


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
            text = f"{told(error)} in place of {told(expected)}"
            raise Differs("error", text) from error
        return
    raise Differs("error", f"no error in place of {told(expected)}")
