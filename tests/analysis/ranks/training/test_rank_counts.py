"""The number of ranks in source."""

from __future__ import annotations

import ast

import pytest

from gradscope.analysis.ranks.training.data.given import part_lines
from gradscope.analysis.ranks.training.rank_counts import counts_ranks, names_of_rank_counts

NAMED = frozenset({"everyone"})


@pytest.mark.parametrize(
    "text",
    [
        "world", "num_gpus", "args.world_size", "dist.get_world_size()", "everyone",
        "everyone * steps", "steps * dist.get_world_size(group)", "int(os.environ['WORLD_SIZE'])",
        "int(os.environ.get('WORLD_SIZE', 1))", "os.getenv('WORLD_SIZE')", "max(1, world_size)",
    ],
)  # fmt: skip
def test_what_is_the_number_of_ranks(text: str) -> None:
    assert counts_ranks(ast.parse(text, mode="eval").body, NAMED)


@pytest.mark.parametrize(
    "text",
    ["steps", "rank", "dist.get_rank()", "len(data) // world", "print('WORLD_SIZE')", "f(world)"],
)
def test_what_is_not(text: str) -> None:
    assert not counts_ranks(ast.parse(text, mode="eval").body, NAMED)


def test_names_are_those_that_hold_it() -> None:
    text = "rank, n = dist.get_rank(), dist.get_world_size()\nm = n_ranks\nper = size // n_ranks\n"

    assert names_of_rank_counts(ast.parse(text)) == {"n", "m"}


def test_a_part_is_taken_where_a_function_divides_by_it() -> None:
    text = "def part(data, world):\n    n = len(data) // world\n    return data[:n / 2]\n"

    assert [(each.line, each.function) for each in part_lines(ast.parse(text))] == [(2, "part")]
