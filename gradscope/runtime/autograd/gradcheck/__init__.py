"""`torch.autograd.gradcheck`: compares derivatives with finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from gradscope.runtime.autograd.gradcheck import analytical, comparing, numerical, properties
from gradscope.runtime.autograd.gradcheck.case import (
    GradcheckError,
    Options,
    as_tuple,
    differentiable_outputs,
    positions,
    wants_grad,
)
from gradscope.runtime.autograd.gradcheck.halves import backward_cases, forward_cases
from gradscope.runtime.autograd.gradcheck.numerical import (
    jacobian_of_one as get_numerical_jacobian_wrt_specific_input,
)
from gradscope.runtime.autograd.gradcheck.words import NOTHING_TO_CHECK, not_double, overlapping
from gradscope.runtime.core.autograd.engine.backward import grad
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.testing._creation import make_tensor

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check the gradients of `func` at `inputs` against finite differences; raise if they differ.

    Inputs must be double precision and not at points where `func` has kinks.
    """
    forward, backward = (
        ("check_forward_ad", check_forward_ad),
        ("check_backward_ad", check_backward_ad),
    )
    _need_one(forward, backward)
    _need(backward, check_batched_grad=check_batched_grad)
    _need(forward, check_batched_forward_grad=check_batched_forward_grad)
    options = Options(
        eps=eps,
        atol=atol,
        rtol=rtol,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        fast_mode=fast_mode,
        masked=masked,
    )
    try:
        given = as_tuple(inputs)
        _check_inputs(given)
        returned = as_tuple(func(*given))
        outputs = differentiable_outputs(returned)
        if check_backward_ad:
            _check_backward(func, given, returned, options)
        if check_forward_ad:
            _check_forward(func, given, returned, options)
        if check_batched_forward_grad:
            properties.batched_tangents(func, given)
        if check_backward_ad:
            _check_gradients(func, given, outputs, options, batched=check_batched_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _need_one(*switches: tuple[str, bool]) -> None:
    if not any(on for _, on in switches):
        names = " or ".join(name for name, _ in switches)
        raise AssertionError(f"Expected at least one of {names} to be True")


def _need(switch: tuple[str, bool], **asked: bool) -> None:
    """Refuse options that need another option."""
    needed, on = switch
    for name, wanted in asked.items():
        if wanted and not on:
            raise AssertionError(f"Setting {name}=True requires {needed} to be True")


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    for index, one in positions(inputs):
        if one.dtype not in (dtypes.float64, dtypes.complex128):
            warnings.warn(not_double(index), stacklevel=3)
        if not all(
            stride > 0 or size <= 1 for stride, size in zip(one.stride(), one.shape, strict=True)
        ):
            raise RuntimeError(overlapping(index))
    if not any(map(wants_grad, inputs)):
        raise ValueError(NOTHING_TO_CHECK)


def _check_backward(
    func: Callable[..., Any], inputs: tuple[Any, ...], returned: tuple[Any, ...], options: Options
) -> None:
    compare = comparing.fast if options.fast_mode else comparing.slow
    for case in backward_cases(func, inputs, returned):
        compare(case, options)


def _check_forward(
    func: Callable[..., Any], inputs: tuple[Any, ...], returned: tuple[Any, ...], options: Options
) -> None:
    compare = comparing.fast if options.fast_mode else comparing.slow
    cases = []
    for case in forward_cases(func, inputs, returned):
        compare(case, options)
        cases.append(case)
    for case in cases if options.check_undefined_grad else ():
        properties.undefined_tangents(case)


def _check_gradients(
    func: Callable[..., Any],
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
    options: Options,
    *,
    batched: bool,
) -> None:
    """Check further properties of a backward."""
    for nr, output in enumerate(outputs if batched else ()):
        properties.batched_gradients(inputs, output, nr)
    properties.zeros_give_zeros(outputs, inputs, masked=options.masked)
    if options.check_undefined_grad:
        properties.undefined_gradients(func, len(outputs), inputs)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check second derivatives: `gradcheck` of a function that returns gradients."""
    again = ("check_rev_over_rev", check_rev_over_rev)
    _need_one(("check_fwd_over_rev", check_fwd_over_rev), again)
    _need(again, check_undefined_grad=check_undefined_grad)
    _need(again, check_batched_grad=check_batched_grad)
    given = as_tuple(inputs)
    if grad_outputs is None:
        seeds = _random_seeds(func(*given), noncontiguous=gen_non_contig_grad_outputs)
    else:
        seeds = as_tuple(grad_outputs)
    return gradcheck(
        _gradients_of(func, given, seeds),
        given + seeds,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _random_seeds(returned: Any, *, noncontiguous: bool) -> tuple[Any, ...]:
    """A random gradient for each differentiable output."""
    return tuple(
        make_tensor(
            output.shape,
            dtype=output.dtype,
            device=output.device,
            low=-1,
            high=1,
            requires_grad=True,
            noncontiguous=noncontiguous,
        )
        for output in differentiable_outputs(returned)
    )


def _gradients_of(
    func: Callable[..., Any], inputs: tuple[Any, ...], seeds: tuple[Any, ...]
) -> Callable[..., tuple[Any, ...]]:
    """The gradients of `func` as a function of its inputs and of the gradients of its outputs."""
    wanted = {i for i, _ in positions(inputs)}
    wanted_seeds = {i for i, _ in positions(seeds)}

    def gradients(*args: Any) -> tuple[Any, ...]:
        # Forward mode passes detached inputs, which must require grad as the given ones do.
        count = len(args) - len(seeds)
        given = [x.requires_grad_() if i in wanted else x for i, x in enumerate(args[:count])]
        outputs = differentiable_outputs(func(*given))
        starts = [
            x.requires_grad_() if i in wanted_seeds else x for i, x in enumerate(args[count:])
        ]
        found = grad(
            outputs,
            [x for i, x in enumerate(given) if i in wanted],
            starts,
            create_graph=True,
            allow_unused=True,
        )
        return tuple(gradient for gradient in found if gradient is not None)

    return gradients


def get_numerical_jacobian(
    fn: Callable[..., Any],
    inputs: Any,
    target: Any = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> tuple[Any, ...]:
    """Deprecated: numerical derivatives of a function that takes its inputs as one tuple."""
    _deprecated("get_numerical_jacobian", grad_out)
    found = numerical.jacobian(lambda *given: fn(given), inputs, None, target, eps)
    return tuple(of_input[0] for of_input in found)


def get_analytical_jacobian(
    inputs: Any, output: Any, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[Any, bool, bool, bool]:
    """Deprecated: the gradients of an output, element by element.

    Also returns whether they were reproducible, had the inputs' sizes, and had their dtypes.
    """
    _deprecated("get_analytical_jacobian", grad_out)
    if output.is_complex():
        raise ValueError(numerical.NO_COMPLEX_OUTPUT.format(name="get_analytical_jacobian"))
    wanted = [one for one in as_tuple(inputs) if wants_grad(one)]
    found, types_fit, sizes_fit = analytical.stacked(
        wanted, analytical.gradients(wanted, output, None)
    )
    again, _, _ = analytical.stacked(wanted, analytical.gradients(wanted, output, None))
    return found, analytical.equal(found, again, nondet_tol), sizes_fit, types_fit


def _deprecated(name: str, grad_out: float) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. It is deprecated "
        "there and here; `gradcheck` compares both kinds of derivatives.",
        FutureWarning,
        stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError(
            f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0."
        )
