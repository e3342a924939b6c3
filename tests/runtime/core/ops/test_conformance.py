"""Every operation against PyTorch: values, graph, what is kept, gradients of gradients, errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.runtime import oracle
from tests.runtime.core.ops.op_db.families import (
    CALLS,
    DIFFERENTIABLE,
    REFUSED,
    asked_of,
    operation_of,
    reals,
)  # fmt: skip
from tests.runtime.core.ops.seconds import first, second
from tests.runtime.oracle import Engine, Real, Sample, Wrong

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # PyTorch's own deprecations
]

WRITES = [
    (name, sample)
    for name, sample in CALLS
    if operation_of(name).partition(".")[0].endswith("_") and not operation_of(name).endswith("__")
]
# Operations whose gradients PyTorch makes of other nodes; the numbers are the same.
OTHER_NODES = frozenset(
    [
        "__getitem__",
        "__setitem__",
        "_pack_padded_sequence",
        "_pad_packed_sequence",
        "addbmm",
        "addmm",
        "addmv",
        "addmv_",
        "addr",
        "as_strided",
        "as_strided_",
        "as_strided_copy",
        "baddbmm",
        "block_diag",
        "cartesian_prod",
        "conv_tbc",
        "copy_",
        "cumprod",
        "det",
        "expand",
        "fft.hfft",
        "fill_",
        "group_norm",
        "index_add",
        "index_add_",
        "index_copy",
        "index_copy_",
        "index_fill",
        "index_fill.int_Tensor",
        "index_fill_",
        "index_fill_.int_Tensor",
        "index_put_.fill",
        "kthvalue",
        "layer_norm",
        "linalg.cond",
        "linalg.det",
        "linalg.eig",
        "linalg.eigh",
        "linalg.eigvals",
        "linalg.householder_product",
        "linalg.lu",
        "linalg.lu_factor",
        "linalg.lu_factor_ex",
        "linalg.lu_solve",
        "linalg.matmul",
        "linalg.matrix_exp",
        "linalg.matrix_norm",
        "linalg.qr",
        "linalg.slogdet",
        "linalg.svd",
        "linalg.svdvals",
        "linear",
        "logdet",
        "lu",
        "lu_solve",
        "lu_unpack",
        "matmul",
        "matrix_exp",
        "max",
        "min",
        "msort",
        "mv",
        "native_group_norm",
        "ormqr",
        "pad",
        "prelu",
        "qr",
        "repeat",
        "slogdet",
        "soft_margin_loss",
        "sort",
        "sort.stable",
        "stack",
        "stft",
        "svd",
        "tile",
        "topk",
        "trace",
        "triangular_solve",
        "zero_",
    ]
)
SIGNS_ARE_FREE = frozenset([
    *(f"Linalg{name}Backward0" for name in ("Eig", "Eigh", "Qr", "Svd")),
    "LOBPCGAutogradFunctionBackward",
])  # fmt: skip
"""Nodes of decompositions whose vectors each LAPACK turns as it likes."""
SAME_NODES_AGAIN = [
    (name, sample)
    for name, sample in DIFFERENTIABLE
    if sample.order > 1 and operation_of(name) not in OTHER_NODES
]


def both(
    ours: Engine, theirs: Engine, sample: Sample, arrays: list[Any], wanted: list[bool]
) -> tuple[oracle.Run, oracle.Run]:
    """The same call on both, each on its own copy of the inputs."""
    copies = [array.copy(order="K") for array in arrays]
    return ours.run(sample, arrays, wanted), theirs.run(sample, copies, wanted)


@asked_of(CALLS)
def test_the_result_is_pytorchs(sample: Sample, ours: Engine, theirs: Engine) -> None:
    arrays = oracle.arrays_for(sample, "float64")

    found, expected = both(ours, theirs, sample, arrays, [False] * len(arrays))

    oracle.assert_same(found.result, expected.result, sample.tolerance, "result")


@asked_of(WRITES)
def test_writes_are_counted_as_pytorch_counts_them(
    sample: Sample, ours: Engine, theirs: Engine
) -> None:
    arrays = oracle.arrays_for(sample, "float64")

    found, expected = both(ours, theirs, sample, arrays, [False] * len(arrays))

    assert [o._version for o in found.outputs] == [o._version for o in expected.outputs]


@asked_of(DIFFERENTIABLE)
def test_the_graph_is_pytorchs(sample: Sample, ours: Engine, theirs: Engine) -> None:
    arrays = oracle.arrays_for(sample, "float64")

    found, expected = both(ours, theirs, sample, arrays, reals(sample))

    assert oracle.graph_of(found.outputs) == oracle.graph_of(expected.outputs)
    assert [getattr(o, "requires_grad", None) for o in found.outputs] == [
        getattr(o, "requires_grad", None) for o in expected.outputs
    ]
    assert_same_saved(found, expected)


@asked_of(case for case in DIFFERENTIABLE if sum(reals(case[1])) > 1)
def test_what_one_gradient_alone_needs_is_pytorchs(
    sample: Sample, ours: Engine, theirs: Engine
) -> None:
    arrays = oracle.arrays_for(sample, "float64")
    for alone, differentiable in enumerate(reals(sample)):
        wanted = [differentiable and i == alone for i in range(len(arrays))]

        found, expected = both(ours, theirs, sample, [a.copy() for a in arrays], wanted)

        assert oracle.graph_of(found.outputs) == oracle.graph_of(expected.outputs)
        assert_same_saved(found, expected)


def assert_same_saved(found: oracle.Run, expected: oracle.Run) -> None:
    nodes = list(zip(oracle.walk(found.outputs), oracle.walk(expected.outputs), strict=True))
    turned = any(oracle.name_of(node) in SIGNS_ARE_FREE for _, (node, _) in nodes)
    for (our_node, _), (their_node, _) in nodes:
        kept, known = oracle.saved_of(our_node), oracle.saved_of(their_node)
        name = oracle.name_of(their_node)
        assert (name, sorted(kept)) == (name, sorted(known))
        assert (name, oracle.raw_names_of(our_node)) == (name, oracle.raw_names_of(their_node))
        for slot, value in known.items():
            where = f"{name}.{slot}"
            if oracle.is_tensor(value) and value.ndim == 0 and not value.requires_grad:
                # A Python number: kept in the dtype it was computed in, PyTorch keeps float64.
                assert float(kept[slot]) == pytest.approx(float(value), nan_ok=True), where
            else:
                pair = (kept[slot], value)
                if turned and oracle.is_tensor(value):
                    pair = (kept[slot].detach().abs(), value.detach().abs())
                oracle.assert_same(*pair, 1.0, where)


@asked_of(DIFFERENTIABLE)
def test_gradients_are_pytorchs(sample: Sample, ours: Engine, theirs: Engine) -> None:
    compare_gradients(sample, ours, theirs, oracle.arrays_for(sample, "float64"))


@asked_of(case for case in DIFFERENTIABLE if case[1].strided)
def test_memory_layout_changes_nothing(sample: Sample, ours: Engine, theirs: Engine) -> None:
    arrays = [oracle.strided(array) for array in oracle.arrays_for(sample, "float64", seed=1)]

    compare_gradients(sample, ours, theirs, arrays)


@asked_of(DIFFERENTIABLE)
def test_gradients_in_single_precision_are_pytorchs(
    sample: Sample, ours: Engine, theirs: Engine
) -> None:
    compare_gradients(sample, ours, theirs, oracle.arrays_for(sample, "float32"))


def compare_gradients(sample: Sample, ours: Engine, theirs: Engine, arrays: list[Any]) -> None:
    found, expected = both(ours, theirs, sample, arrays, reals(sample))
    oracle.assert_same(found.result, expected.result, sample.tolerance, "result")
    seeds = oracle.seeds_for(expected, 2)
    oracle.assert_same(
        oracle.grads_of(found, seeds, create_graph=False),
        oracle.grads_of(expected, seeds, create_graph=False),
        sample.tolerance,
        "gradient",
    )


@asked_of(case for case in DIFFERENTIABLE if case[1].order > 1)
def test_second_gradients_are_pytorchs(sample: Sample, ours: Engine, theirs: Engine) -> None:
    arrays = oracle.arrays_for(sample, "float64")

    found, expected = both(ours, theirs, sample, arrays, reals(sample))
    ours_second, theirs_second = (second(run) for run in (found, expected))

    oracle.assert_same(ours_second, theirs_second, sample.tolerance, "second gradient")


@asked_of(SAME_NODES_AGAIN)
def test_gradients_are_made_of_pytorchs_nodes(sample: Sample, ours: Engine, theirs: Engine) -> None:
    arrays = oracle.arrays_for(sample, "float64")

    found, expected = both(ours, theirs, sample, arrays, reals(sample))

    assert nodes_behind(first(found)[0]) == nodes_behind(first(expected)[0])


def nodes_behind(grads: Any) -> Counter[str]:
    return Counter(name for name, _ in oracle.graph_of([g for g in grads if g is not None]))


@asked_of((name, (sample, dtype)) for name, sample in CALLS for dtype in sample.dtypes)
def test_other_dtypes_give_what_pytorch_gives(
    sample: Sample, dtype: str, ours: Engine, theirs: Engine
) -> None:
    arrays = oracle.arrays_for(sample, dtype)
    nowhere = [False] * len(arrays)
    try:
        expected = theirs.run(sample, [array.copy() for array in arrays], nowhere)
    except (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError) as refused:
        with pytest.raises(type(refused)):
            ours.run(sample, arrays, nowhere)
        return

    found = ours.run(sample, arrays, nowhere)

    oracle.assert_same(found.result, expected.result, sample.tolerance, "result")


@asked_of(case for case in DIFFERENTIABLE if "complex128" in case[1].dtypes)
def test_gradients_of_complex_numbers_are_pytorchs(
    sample: Sample, ours: Engine, theirs: Engine
) -> None:
    arrays = oracle.arrays_for(sample, "complex128")
    copies = [array.copy() for array in arrays]
    try:
        expected = theirs.run(sample, copies, reals(sample))
        known = oracle.grads_of(expected, oracle.seeds_for(expected, 2), create_graph=False)
    except (RuntimeError, TypeError):
        return  # refusals are compared above

    found = ours.run(sample, arrays, reals(sample))

    grads = oracle.grads_of(found, oracle.seeds_for(expected, 2), create_graph=False)
    oracle.assert_same(grads, known, sample.tolerance, "gradient")


@asked_of(REFUSED)
def test_wrong_calls_are_refused_in_pytorchs_words(
    call: Wrong, ours: Engine, theirs: Engine
) -> None:
    arrays = oracle.arrays_for(call, call.dtype)
    wanted = [isinstance(g, Real) and call.dtype[0] in "fc" for g in call.inputs]
    with pytest.raises(Exception) as expected:
        theirs.run(call, [array.copy() for array in arrays], wanted)

    with pytest.raises(Exception) as found:
        ours.run(call, arrays, wanted)

    assert type(expected.value).__name__ in [c.__name__ for c in type(found.value).__mro__]
    assert first_line(found.value) == first_line(expected.value)


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
