"""Tables that are cut to the size of what they are added to are told, with the dim."""

from __future__ import annotations

import ast

from gradscope.analysis.source.positions import positions

SCRIPT = """\
def forward(self, x, ids):
    x = x + self.pe[: x.size(0)]
    x = self.drop(self.table[:, : x.shape[1]] + x)
    x += self.pe[: len(x), None]
    y = self.emb(ids) + self.pos[: ids.size(1)]
    z = x + y[: y.size(0)] + self.pe[1 : x.size(0)]
    z = x + self.noise[: x.size(0)]
    return x[: x.size(0)] * 2
"""


def test_the_dim_is_told_along_which_positions_are_counted() -> None:
    assert [tuple(each) for each in positions(ast.parse(SCRIPT))] == [
        (2, "x", 0),
        (3, "x", 1),
        (4, "x", 0),
        (5, "ids", 1),
    ]
