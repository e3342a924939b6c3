"""Gradients of whole batches and of parts: equal ones are the same, others have a cause."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradscope.analysis.likeness.laws.accumulate import PartsOfBatch, accumulation
from gradscope.analysis.likeness.laws.gradients import precision
from gradscope.scene.timeline.laws.accumulate_answer import accumulate_answer
from gradscope.trace.schema import Device, Op, Tensor
from tests.analysis.likeness.engines import on_gradscope, on_pytorch
from tests.shared.by_hand import trace_of

Record = Callable[[Callable[[Any], Any]], Any]
ROWS = 24


@pytest.fixture(params=["gradscope", "torch"])
def record(request: pytest.FixtureRequest) -> Record:
    """Records a program at level `values`, on both engines."""
    if request.param == "torch":
        pytest.importorskip("torch")
        return lambda program: on_pytorch(program, "values")
    return lambda program: on_gradscope(program, "values")


def training(
    *,
    sizes: tuple[int, ...] = (ROWS,),
    divide: float = 1.0,
    clears: bool = False,
    steps_each: bool = False,
    seed: int = 0,
    layer: str = "",
    weights: Callable[[int], float] = lambda _: 1.0,
) -> Callable[[Any], None]:
    """Two steps of a small network with parts of these sizes, and mistakes in accumulating."""

    def program(torch: Any) -> None:
        nn = torch.nn
        torch.manual_seed(seed)
        extra = {"": [], "norm": [nn.BatchNorm1d(8)], "dropout": [nn.Dropout(0.5)]}[layer]
        model = nn.Sequential(nn.Linear(4, 8), *extra, nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        data = np.random.default_rng(0).standard_normal((2, ROWS, 4)).astype(np.float32)
        for batch in data:
            begin = 0
            for size in sizes:
                if clears:
                    optimizer.zero_grad()
                x = torch.from_numpy(batch[begin : begin + size])
                loss = model(x).square().mean() * weights(size) / divide
                loss.backward()  # backward
                begin += size
                if steps_each:
                    optimizer.step()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
            optimizer.zero_grad()

    return program


def law(record: Record, whole: dict[str, Any], **parts: Any) -> PartsOfBatch:
    return accumulation(record(training(**whole)), record(training(**parts)))


THIRDS = (8, 8, 8)


def test_parts_that_are_divided_by_their_number_keep_the_law(record: Record) -> None:
    found = law(record, {}, sizes=THIRDS, divide=3.0)

    assert found.first is None
    assert (found.steps, found.gradients, found.small) == (2, 2 * 4, 0)
    assert not found.is_broken
    assert "same gradients as whole batches, in 2 steps" in accumulate_answer(found).title


def test_unequal_parts_with_their_share_of_the_rows_keep_the_law(record: Record) -> None:
    found = law(record, {}, sizes=(16, 8), weights=lambda size: size / ROWS)

    assert found.first is None


@pytest.mark.parametrize(("divide", "factor"), [(1.0, 3.0), (9.0, 1 / 3), (2.0, 1.5)])
def test_one_factor_of_all_gradients_is_named_although_they_are_clipped(
    record: Record, divide: float, factor: float
) -> None:
    first = law(record, {}, sizes=THIRDS, divide=divide).first

    assert first is not None
    assert math.isclose(first.factor, factor, rel_tol=1e-3)
    assert (first.step, first.backwards, len(first.pairs)) == (0, (1, 3), 4)
    assert first.site.text.endswith("# backward")
    said = {3.0: "divide the loss by 3", 1 / 3: "once if the loss is a mean", 1.5: "its share"}
    assert said[factor] in first.causes[0].advice


def test_unequal_parts_of_equal_weight_are_named(record: Record) -> None:
    first = law(record, {}, sizes=(16, 8), divide=2.0).first

    assert first is not None
    assert math.isnan(first.factor)
    assert "the parts have 16, 8 rows" in first.causes[0].words


def test_batch_norm_is_named_as_the_cause(record: Record) -> None:
    options = {"layer": "norm"}
    first = law(record, options, sizes=THIRDS, divide=3.0, **options).first

    assert first is not None
    assert math.isnan(first.factor)
    assert "1 (BatchNorm1d)" in first.causes[0].words


def test_random_numbers_of_another_layer_order_are_named(record: Record) -> None:
    first = law(record, {}, sizes=THIRDS, divide=3.0, layer="dropout").first

    assert first is not None
    assert "draws other random numbers" in first.causes[0].words


def test_gradients_cleared_between_parts_are_named(record: Record) -> None:
    first = law(record, {}, sizes=THIRDS, divide=3.0, clears=True).first

    assert first is not None
    assert "are cleared" in first.causes[0].words
    assert first.causes[0].site.text == "optimizer.zero_grad()"


def test_a_step_after_each_part_is_named(record: Record) -> None:
    first = law(record, {}, sizes=THIRDS, divide=3.0, steps_each=True).first

    assert first is not None
    assert first.backwards == (1, 1)
    assert "steps after 1 backward" in first.causes[0].words


def test_other_weights_that_no_shape_shows_are_inferred(record: Record) -> None:
    drawn = iter((1.2, 0.8, 1.0, 1.2, 0.8, 1.0))
    first = law(record, {}, sizes=THIRDS, divide=3.0, weights=lambda _: next(drawn)).first

    assert first is not None
    assert not first.causes[0].seen
    assert "tokens that are not masked" in first.causes[0].words


def test_missing_rows_are_named_before_anything_else(record: Record) -> None:
    first = law(record, {}, sizes=(8, 8), divide=2.0).first

    assert first is not None
    assert "the whole batch has 24 rows, its parts have 16" in first.causes[0].words


def test_runs_with_other_parameters_are_not_compared(record: Record) -> None:
    found = law(record, {}, sizes=THIRDS, divide=3.0, seed=1)

    assert (found.other_start, found.gradients) == ("0.weight", 0)
    assert found.is_broken
    assert "cannot be compared: 0.weight" in accumulate_answer(found).title


def returned(dtype: str, device: str = "cpu") -> Any:
    return trace_of(
        Device(0, device), Tensor(1, dtype=dtype, device=0), Op(2, "mul", begin=1, outputs=(1,))
    )


def test_the_tolerance_follows_from_the_least_precise_dtype() -> None:
    doubles, floats, halves = map(returned, ("float64", "float32", "bfloat16"))

    assert precision(doubles).tolerance == 2.0**-26
    assert precision(doubles, floats).tolerance == 2.0**-11.5
    assert precision(floats, halves).dtype == "bfloat16"
    assert precision(returned("float32", "cuda:0")).bits == 10
