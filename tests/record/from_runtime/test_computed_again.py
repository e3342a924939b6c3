"""Gradients of nodes are computed again from copies, and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradscope.errors import UnreadableTraceError
from gradscope.record.acts.kept.node_values import read, values_file, write
from gradscope.record.from_runtime.again.compare import judged
from gradscope.record.from_runtime.again.formulas import formulas_of
from gradscope.record.from_runtime.again.verify import as_json, verified
from gradscope.watch.in_place.node_runs import CopiedRun, NodeArray


def array(values: Any, dtype: str = "float32") -> NodeArray:
    return NodeArray(np.asarray(values).astype(dtype), dtype)


def a_run(kind: str, grad: Any, returned: Any, dtype: str = "float32", **saved: Any) -> CopiedRun:
    """A run of a node with one gradient, whose saved values are arrays or options."""
    gradients = returned if isinstance(returned, list) else [returned]
    run = CopiedRun(kind, node=0, stack=0)
    run.grads, run.shapes = [array(grad, dtype)], [np.shape(grad)]
    run.returned = [None if each is None else array(each, dtype) for each in gradients]
    run.saved = {
        slot: array(value, dtype) if isinstance(value, np.ndarray) else value
        for slot, value in saved.items()
    }
    return run


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def tanh(times: float = 1.0, dtype: str = "float32") -> CopiedRun:
    """A run of tanh that returned this multiple of its gradient."""
    grad, result = values(64, 3), np.tanh(values(64, 3, seed=1)).astype(dtype).astype(float)
    exact = grad.astype(dtype).astype(float) * (1 - result * result)
    return a_run("TanhBackward0", grad, times * exact, dtype, result=result)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_gradient_that_is_right_agrees_in_every_dtype(dtype: str) -> None:
    assert judged(tanh(dtype=dtype)).found == "agrees"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_multiple_of_the_gradient_is_found_with_its_factor(dtype: str) -> None:
    verdict = judged(tanh(1.5, dtype))

    assert (verdict.found, verdict.input) == ("kernel", "self")
    assert verdict.times == pytest.approx(1.5, rel=1e-2)
    assert verdict.off == pytest.approx(0.5, rel=1e-2)
    assert verdict.allowed < verdict.off


def test_one_wrong_element_is_found() -> None:
    run = tanh()
    wrong = run.returned[0]
    assert wrong is not None
    wrong.values[17, 1] *= 1.001

    assert judged(run).found == "kernel"


def test_a_gradient_that_float16_cannot_hold_lost_its_bits() -> None:
    grad, other = np.full(8, 1e-5), np.full(8, 1e-4)

    verdict = judged(
        a_run("MulBackward0", grad, [np.zeros(8), None], "float16", self=None, other=other)
    )

    assert (verdict.found, verdict.right, verdict.bits) == ("precision", 0, 11)
    assert verdict.off == pytest.approx(1)


def test_a_gradient_that_float16_overflows_lost_its_bits() -> None:
    many, infinite = np.full(8, 1e4), [np.full(8, np.inf), None]

    verdict = judged(a_run("MulBackward0", many, infinite, "float16", self=None, other=many))

    assert verdict.found == "precision"


def test_bits_that_cancel_in_float16_are_not_said_to_be_out_of_its_range() -> None:
    """The terms of the gradient of GELU cancel for such numbers."""
    x = np.full(8, -5, np.float16)
    run = a_run("GeluBackward0", np.ones(8), x, "float16", self=x, approximate="tanh")
    (made,) = formulas_of(run)[0].gradients(lambda array: array.values)
    run.returned = [array(made, "float16")]

    assert judged(run).found == "agrees"


def test_a_gradient_that_vanished_in_float32_agrees() -> None:
    grad, other = np.full(8, 1e-30), np.full(8, 3.3e-14)

    verdict = judged(
        a_run("MulBackward0", grad, [grad * other, None], "float32", self=None, other=other)
    )

    assert verdict.found == "agrees"


def test_a_small_gradient_that_float16_rounds_agrees() -> None:
    grad, other = np.full(8, 0.1, np.float16), np.full(8, 0.3, np.float16)

    verdict = judged(
        a_run("MulBackward0", grad, [grad * other, None], "float16", self=None, other=other)
    )

    assert verdict.found == "agrees"


def test_terms_that_cancel_may_leave_any_rounding() -> None:
    """The gradient of a softmax under equal gradients is 0 but for roundings."""
    scores = values(4, 1000)
    exact = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    grad, result = np.full((4, 1000), 1.7, np.float32), exact.astype(np.float32)
    one_after_another = np.cumsum(grad * result, axis=1, dtype=np.float32)[:, -1:]
    returned = result * (grad - one_after_another)

    run = a_run("SoftmaxBackward0", grad, returned, result=result, dim=-1)

    assert np.abs(returned).max() > 0
    assert judged(run).found == "agrees"


def test_a_long_sum_in_another_order_agrees() -> None:
    """The gradient of the right factor of a product, whose terms are added one after another."""
    grad, left = values(5000, 2).astype(np.float32), values(5000, 3, seed=1).astype(np.float32)
    made = np.zeros((3, 2), np.float32)
    for row, other in zip(left, grad, strict=True):
        made += np.outer(row, other)
    sizes: dict[str, Any] = {"self_sym_sizes": [5000, 3], "self_sym_strides": [3, 1]}
    sizes |= {"mat2_sym_sizes": [3, 2], "mat2_sym_strides": [2, 1]}

    run = a_run("MmBackward0", grad, [None, made], self=left, mat2=None, **sizes)
    exact = left.astype(float).T @ grad.astype(float)

    assert np.abs(made - exact).max() > np.finfo(np.float32).eps * np.abs(exact).max()
    assert judged(run).found == "agrees"
    made[1, 1] += 0.1
    wrong = a_run("MmBackward0", grad, [None, made], self=left, mat2=None, **sizes)
    assert judged(wrong).found == "kernel"


@pytest.mark.parametrize("kind", ["NoSuchBackward0", "TanhBackward7", "MyFunctionBackward"])
def test_a_node_without_a_formula_is_said(kind: str) -> None:
    run = tanh()
    run.kind = kind

    assert judged(run).found == "no formula"


def test_a_node_that_does_not_keep_what_the_formula_needs_is_said() -> None:
    run = tanh()
    run.saved.clear()

    assert judged(run).found == "no formula"


def test_values_that_are_not_finite_are_not_compared() -> None:
    run = tanh(7)
    assert run.grads[0] is not None
    run.grads[0].values[0, 0] = np.nan

    assert judged(run).found == "not finite"


# -- the file ---------------------------------------------------------------------------------


def test_a_file_returns_what_was_written(tmp_path: Path) -> None:
    run = tanh()
    run.saved |= {"dim": [1, -1], "approximate": "none", "eps": 1e-5, "nothing": None}
    path = values_file(tmp_path / "run.json.gz")

    write(path, [run, tanh(2)])
    first, second = read(path)

    assert path.name == "run.values.npz"
    assert (first.kind, first.shapes, {*first.saved}) == (run.kind, run.shapes, {*run.saved})
    assert first.saved["dim"] == [1, -1]
    for one, other in [
        (first.grads[0], run.grads[0]),
        (first.saved["result"], run.saved["result"]),
    ]:
        assert one is not None
        assert other is not None
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one.values, other.values)
    assert [each.found for _, each in verified(path)] == ["agrees", "kernel"]
    assert second.returned[0] is not None


def test_without_time_nothing_is_computed(tmp_path: Path) -> None:
    path = tmp_path / "run.values.npz"
    write(path, [tanh()])

    assert [each["found"] for each in as_json(verified(path, seconds=0))["runs"]] == ["no time"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"\x93NUMPY"])
def test_a_damaged_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.values.npz"
    path.write_bytes(content)

    with pytest.raises(UnreadableTraceError):
        read(path)
