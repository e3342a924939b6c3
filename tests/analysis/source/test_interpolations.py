"""Searches for integers that are interpolated and truncated."""

from __future__ import annotations

import ast

import pytest

from gradscope.analysis.source.values.interpolations import Interpolated, interpolated

IN_TWO_LINES = """
def resized(mask, size):
    mask = F.interpolate(mask[None].float(), size, mode="bilinear")
    return mask[0].long()
"""


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (IN_TWO_LINES, [Interpolated(4, 3, "bilinear")]),
        ("y = interpolate(m.float(), mode='area').squeeze(0).int()", [Interpolated(1, 1, "area")]),
        ("y = interpolate(m.float(), mode='nearest').long()", []),
        ("y = interpolate(m.float()).long()", []),
        ("y = interpolate(scores, mode='bilinear').long()", []),
        ("y = interpolate(m.float(), mode='bilinear').round().long()", []),
        ("m = interpolate(m.float(), mode='bilinear')\nm = m > 0.5\ny = m.long()", []),
        ("m = interpolate(m.float(), mode='bilinear')\ny = other.long()", []),
    ],
)
def test_numbers_are_found_that_are_interpolated_and_made_whole(
    code: str, found: list[Interpolated]
) -> None:
    assert [*interpolated(ast.parse(code))] == found
