"""How findings name many parameters."""

from __future__ import annotations

import pytest

from gradscope.analysis.program.training import pattern_of

BLOCKS = [
    f"blocks.{number}.{part}.{kind}"
    for number in (0, 1)
    for part in ("ln1", "ln2")
    for kind in ("weight", "bias")
]


@pytest.mark.parametrize(
    ("names", "others", "said"),
    [
        (BLOCKS, ["head.weight"], "blocks.* (8 parameters)"),
        ([each for each in BLOCKS if "ln2" in each], BLOCKS, "blocks.*.ln2.* (4 parameters)"),
        ([each for each in BLOCKS if "bias" in each], BLOCKS, "blocks.*.*.bias (4 parameters)"),
        (BLOCKS[:3], BLOCKS, "blocks.0.* (3 of 4 parameters)"),
        (["encoder.a.weight", "encoder.bias", "encoder.b"], [], "encoder.* (3 parameters)"),
        (["a.weight", "b.weight", "c.weight"], [], ""),
    ],
)
def test_a_pattern_matches_no_other_parameter(
    names: list[str], others: list[str], said: str
) -> None:
    assert pattern_of(names, {*others} - {*names}) == said
