"""Which means that ranks average are found in the source: those of times are not."""

from __future__ import annotations

import ast

import pytest

from gradscope.analysis.ranks.training.data.evaluated import averaged_means

AVERAGED = "dist.all_reduce(mean, op=dist.ReduceOp.AVG)"


def found(text: str) -> list[tuple[int, int]]:
    """The lines of the mean and of the collective."""
    return [(each.mean, each.line) for each in averaged_means(ast.parse(text))]


@pytest.mark.parametrize(
    "mean",
    [
        "mean = errors.mean()",
        "mean = torch.tensor(total / len(rows))",
        "mean = model(x, timesteps).square().mean()",
        "mean = errors.mean(); print(time.time())",
        "t = torch.rand(4); errors = model(x, time); mean = errors.mean()",
    ],
)
def test_a_mean_of_a_metric_is_found(mean: str) -> None:
    assert found(f"{mean}\n{AVERAGED}") == [(1, 2)]
    assert found(f"{mean}\ndist.all_reduce(mean)\nmean /= world_size") == [(1, 2)]


@pytest.mark.parametrize(
    "mean",
    [
        "mean = torch.tensor((time.time() - begun) / len(rows))",
        "begun = perf_counter(); took = perf_counter() - begun; mean = torch.tensor(took / n)",
        "took = 0; took += time.monotonic() - begun; mean = torch.tensor(took / n)",
        "all = []; all.append(start.elapsed_time(end)); mean = torch.tensor(all).mean()",
        "mean = torch.tensor(stats.step_time / n)",
        "mean = torch.tensor(rows / elapsed)",
        "seconds_per_step = run() / n; mean = torch.tensor(seconds_per_step)",
        "mean = torch.tensor(torch.cuda.max_memory_allocated() / 2**20)",
    ],
)
def test_a_mean_of_times_or_a_size_in_a_unit_is_not(mean: str) -> None:
    assert found(f"{mean}\n{AVERAGED}") == []
    assert found(f"{mean}\ndist.all_reduce(mean)\nmean /= world_size") == []
