"""Where numbers become tensors is read off the source."""

from __future__ import annotations

import ast

from gradscope.analysis.source.values.crossings import Crossing, crossings

SCRIPT = """\
import numpy as np
import torch
class Table:
    def __init__(self, rows):
        self.x = torch.from_numpy(np.array(rows)).float()
        self.one = torch.tensor([1.0, -2.0])
    def __getitem__(self, index):
        return torch.as_tensor(self.x[index])
table: torch.Tensor = torch.tensor([float(each) for each in open("a")])
ones = torch.ones(3)
"""


def test_calls_that_make_tensors_of_numbers_are_told_with_the_name_they_are_given() -> None:
    assert list(crossings(ast.parse(SCRIPT))) == [
        Crossing(9, "tensor", "table"),
        Crossing(5, "from_numpy", "x"),
        Crossing(8, "as_tensor", ""),
    ]
