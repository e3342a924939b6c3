"""Parameters that have several paths are known by all of them, on both engines."""

from __future__ import annotations

import pytest

from gradscope.analysis.answers.meant import tensor_meant
from gradscope.analysis.identity.aliases import other_paths
from gradscope.analysis.program.training import Training
from gradscope.trace.schema import Tensor
from tests.record.running import House

SHARED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(4, 3)
        block = torch.nn.Linear(3, 3)
        self.blocks = torch.nn.ModuleList([block, block])
        self.head = torch.nn.Linear(3, 4, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

Model()(torch.arange(4)).sum().backward()
"""


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_tied_weights_and_those_of_shared_modules_have_all_their_paths(
    house: House, engine: str
) -> None:
    house.write(SHARED)

    house.trace("--on", engine, "script.py")

    trace = house.recorded()
    names = {row.id: row.name for row in trace.rows(Tensor)}
    assert {names[tensor]: paths for tensor, paths in other_paths(trace).items()} == {
        "embed.weight": ("head.weight",),
        "blocks.0.weight": ("blocks.1.weight",),
        "blocks.0.bias": ("blocks.1.bias",),
    }
    tied = tensor_meant(trace, "head.weight")
    assert tied == tensor_meant(trace, "embed.weight")
    assert trace.once(Training).title(tied) == "embed.weight (also head.weight)"
