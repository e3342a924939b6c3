"""Every operation's tangent against PyTorch's, and the derivatives of tangents and of gradients.

Where PyTorch has no forward derivative, what it finds by differentiating its backward twice counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime import oracle
from tests.runtime.core.ops.op_db import families
from tests.runtime.core.ops.op_db.families import asked_of, operation_of
from tests.runtime.oracle import Engine, Real, Run, Sample

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # PyTorch's own deprecations
]

# PyTorch's derivative of a complex silu lacks a conjugation; of logit at NaN it has two answers.
OTHERWISE = {"silu-0", "silu-1", "logit-6"}
# Its one operation for attention has no tangent.
OTHERWISE |= {f"scaled_dot_product_attention-{i}" for i in range(13)}
OTHERWISE |= {"multi_head_attention_forward-1"}
# Its tangents of inverses from Cholesky's factor and of transposed triangles are not the slopes.
OTHERWISE |= {
    "cholesky_inverse-0", "triangular_solve-0", "triangular_solve-1",
}  # fmt: skip
# Neither engine knows a tangent of these.
OTHERWISE |= {"_ctc_loss-0", "_weight_norm-0"}
DIFFERENTIABLE = [case for case in families.DIFFERENTIABLE if case[0] not in OTHERWISE]
# PyTorch takes the factors it keeps of these for constants: they have no tangent and no history.
CONSTANT_FACTORS = ("linalg.solve", "linalg.tensorsolve", "linalg.det", "linalg.slogdet", "det-",
                    "slogdet", "logdet")  # fmt: skip
TWICE = [
    (name, sample)
    for name, sample in DIFFERENTIABLE
    if sample.order > 1 and (not name.startswith(CONSTANT_FACTORS) or "triangular" in name)
]
COMPLEX = [case for case in DIFFERENTIABLE if "complex128" in case[1].dtypes]


def layout(tensor: Any) -> list[tuple[int, int]]:
    """Sizes and strides, of the dims that have more than one element."""
    return [
        (size, step) for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size != 1
    ]


def numbers_like(array: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    made = rng.uniform(-1, 1, array.shape)
    if array.dtype.kind == "c":
        made = made + 1j * rng.uniform(-1, 1, array.shape)
    return np.asarray(made).astype(array.dtype)


def dual_run(engine: Engine, sample: Sample, arrays: list[Any], *, grad: bool = False) -> Run:
    """The call with a tangent on every real input; inside a dual level."""
    forward_ad = engine.module.autograd.forward_ad
    inputs = []
    for i, (given, array) in enumerate(zip(sample.inputs, arrays, strict=True)):
        tensor = engine.wrap(array.copy(order="K"))
        if isinstance(given, Real):
            tensor = tensor.requires_grad_(grad)
            tangent = engine.wrap(numbers_like(array, 10 + i)).requires_grad_(grad)
            tensor = forward_ad.make_dual(tensor, tangent)
        inputs.append(tensor)
    result = sample.call(engine.module, *inputs)
    return Run(engine, inputs, result, list(oracle.flat(result)))


def tangents_of(engine: Engine, tensors: Any) -> list[Any]:
    unpack = engine.module.autograd.forward_ad.unpack_dual
    return [unpack(t).tangent if oracle.is_tensor(t) else None for t in tensors]


def by_differentiating_twice(engine: Engine, sample: Sample, arrays: list[Any]) -> list[Any]:
    """J t, as the gradient of (J^T v) . t by v."""
    wanted = [isinstance(given, Real) for given in sample.inputs]
    run = engine.run(sample, [array.copy(order="K") for array in arrays], wanted)
    outputs = [o for o in run.outputs if oracle.is_tensor(o) and o.requires_grad]
    seeds = [engine.wrap(np.zeros_like(oracle.array_of(o))).requires_grad_() for o in outputs]
    inputs = [x for x, needed in zip(run.inputs, wanted, strict=True) if needed]
    tangents = [
        engine.wrap(numbers_like(array, 10 + i)) for i, array in enumerate(arrays) if wanted[i]
    ]
    grad = engine.module.autograd.grad
    first = grad(outputs, inputs, seeds, create_graph=True, allow_unused=True)
    pairs = [(g, t) for g, t in zip(first, tangents, strict=True) if g is not None]
    found = iter(grad([g for g, _ in pairs], seeds, [t for _, t in pairs], materialize_grads=True))
    return [next(found) if oracle.is_tensor(o) and o.requires_grad else None for o in run.outputs]


def by_differences(engine: Engine, sample: Sample, arrays: list[Any]) -> list[Any]:
    """J t, as a difference of two values near by."""
    step = 1e-6
    ends = []
    for side in (step, -step):
        moved = [
            array + side * numbers_like(array, 10 + i) if isinstance(given, Real) else array
            for i, (given, array) in enumerate(zip(sample.inputs, arrays, strict=True))
        ]
        ends.append(engine.run(sample, moved, [False] * len(moved)).outputs)
    return [(after - before) / (2 * step) for after, before in zip(*ends, strict=True)]


def expected_tangents(theirs: Engine, sample: Sample, arrays: list[Any]) -> tuple[list[Any], float]:
    """What PyTorch says the tangents are, and how much less sure than usual that is."""
    try:
        with theirs.module.autograd.forward_ad.dual_level():
            return tangents_of(theirs, dual_run(theirs, sample, arrays).outputs), 1.0
    except NotImplementedError:
        pass
    try:
        return by_differentiating_twice(theirs, sample, arrays), 1.0
    except RuntimeError:
        return by_differences(theirs, sample, arrays), 1e4


def compare(sample: Sample, ours: Engine, theirs: Engine, arrays: list[Any]) -> None:
    expected, doubt = expected_tangents(theirs, sample, arrays)
    with ours.module.autograd.forward_ad.dual_level():
        run = dual_run(ours, sample, arrays)
        found = tangents_of(ours, run.outputs)
        for output, tangent in zip(run.outputs, found, strict=True):
            if tangent is not None:
                assert layout(tangent) == layout(output)

    assert [t is None for t in found] == [t is None for t in expected]
    oracle.assert_same(found, expected, sample.tolerance * doubt, "tangent")


@asked_of(DIFFERENTIABLE)
def test_tangents_are_pytorchs(sample: Sample, ours: Engine, theirs: Engine) -> None:
    compare(sample, ours, theirs, oracle.arrays_for(sample, "float64"))


# PyTorch's tangent of a copied view is a view, which there is none of memory with gaps.
NO_VIEW = {"view_copy-0"}


@asked_of(case for case in DIFFERENTIABLE if case[1].strided and case[0] not in NO_VIEW)
def test_tangents_lie_as_their_tensors_do(sample: Sample, ours: Engine, theirs: Engine) -> None:
    arrays = [oracle.strided(array) for array in oracle.arrays_for(sample, "float64", seed=1)]

    compare(sample, ours, theirs, arrays)


@asked_of(COMPLEX)
def test_tangents_of_complex_numbers_are_pytorchs(
    sample: Sample, ours: Engine, theirs: Engine
) -> None:
    arrays = oracle.arrays_for(sample, "complex128")
    try:
        expected_tangents(theirs, sample, arrays)
    except (RuntimeError, TypeError):
        return  # refusals are compared in test_conformance.py

    compare(sample, ours, theirs, arrays)


@asked_of(TWICE)
def test_gradients_have_tangents(sample: Sample, ours: Engine, theirs: Engine) -> None:
    compare_second(forward_over_reverse, sample, ours, theirs)


# Differentiating its tangents of these, PyTorch takes mean and deviation for constants.
CONSTANT_MOMENTS = {"layer_norm", "native_layer_norm", "batch_norm", "native_batch_norm"} | {
    "instance_norm"
}


@asked_of(case for case in TWICE if operation_of(case[0]) not in CONSTANT_MOMENTS)
def test_tangents_have_gradients(sample: Sample, ours: Engine, theirs: Engine) -> None:
    compare_second(reverse_over_forward, sample, ours, theirs)


def compare_second(
    derivatives: Callable[..., list[Any]], sample: Sample, ours: Engine, theirs: Engine
) -> None:
    """Second derivatives that PyTorch knows; where it finds NaN we may know better."""
    arrays = oracle.arrays_for(sample, "float64")
    try:
        expected = derivatives(theirs, sample, arrays)
    except (NotImplementedError, RuntimeError):
        return

    found = derivatives(ours, sample, arrays)

    for ours_one, theirs_one in zip(found, expected, strict=True):
        known = ~np.isnan(oracle.array_of(theirs_one))
        np.testing.assert_allclose(
            oracle.array_of(ours_one)[known],
            oracle.array_of(theirs_one)[known],
            rtol=1e-8 * sample.tolerance,
            atol=1e-9 * sample.tolerance,
        )


def forward_over_reverse(engine: Engine, sample: Sample, arrays: list[Any]) -> list[Any]:
    """The tangents of the gradients; zeros where there are none."""
    with engine.module.autograd.forward_ad.dual_level():
        run = dual_run(engine, sample, arrays, grad=True)
        grads = oracle.grads_of(run, oracle.seeds_for(run, 2), create_graph=False)
        grads = [grad for grad in grads if grad is not None]
        pairs = zip(grads, tangents_of(engine, grads), strict=True)
        return [engine.module.zeros_like(g) if t is None else t for g, t in pairs]


def reverse_over_forward(engine: Engine, sample: Sample, arrays: list[Any]) -> list[Any]:
    """The gradients of the tangents by the inputs and by the inputs' tangents."""
    with engine.module.autograd.forward_ad.dual_level():
        run = dual_run(engine, sample, arrays, grad=True)
        given = [t for x in run.inputs for t in (x, *tangents_of(engine, [x]))]
        made = tangents_of(engine, run.outputs)
    wanted = [t for t in given if t is not None and t.requires_grad]
    made = [t for t in made if t is not None and t.requires_grad]
    seeds = [engine.wrap(numbers_like(oracle.array_of(t), 5)) for t in made]
    grad = engine.module.autograd.grad
    if not made:
        return [engine.module.zeros_like(t) for t in wanted]
    return list(grad(made, wanted, seeds, materialize_grads=True))


def test_every_operation_says_how_its_tangent_is_made() -> None:
    from gradscope.runtime.core.autograd.forward.jvp_rules import rule_of
    from gradscope.runtime.core.rows.operation import REGISTRY

    unclassified = []
    for operation in REGISTRY.values():
        if operation.plan.differentiable:
            try:
                rule_of(operation)
            except NotImplementedError:
                continue
            except TypeError:
                unclassified.append(operation.name)

    assert unclassified == []
