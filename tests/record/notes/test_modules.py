"""What the parameters of a watched model are called, and in which order its modules come."""

from __future__ import annotations

import gradscope
import gradscope.runtime as torch
from gradscope.analysis.program.modules import module_names
from gradscope.runtime import nn
from gradscope.trace.schema import Module, Tensor


class Tied(nn.Module):
    """A language model in small: what turns tokens into vectors turns vectors into tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Sequential(nn.Embedding(5, 4)), nn.ReLU())
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.body[0][0].weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def test_a_tied_weight_has_the_first_of_its_names_as_in_named_parameters() -> None:
    model = Tied()

    with gradscope.record() as recording:
        model(torch.tensor([1, 2])).sum().backward()

    names = [row.name for row in recording.trace().rows(Tensor) if row.requires_grad and row.leaf]
    assert names == [name for name, _ in model.named_parameters()] == ["body.0.0.weight"]


def test_modules_come_in_the_order_of_named_modules() -> None:
    model = Tied()

    with gradscope.record() as recording:
        model(torch.tensor([1, 2]))

    paths = [row.path for row in recording.trace().rows(Module)]
    assert paths == [path for path, _ in model.named_modules()]


class Trainer:
    def __init__(self) -> None:
        self.critic = nn.Linear(3, 1)

    def step(self, x: torch.Tensor) -> None:
        self.critic(x)


def test_models_are_called_as_the_program_calls_them() -> None:
    generator = nn.Sequential(nn.Linear(2, 3))
    trainer = Trainer()

    with gradscope.record() as recording:
        trainer.step(generator(torch.ones(1, 2)))
        nn.Linear(1, 1)(torch.ones(1, 1))

    trace = recording.trace()
    assert [row.name for row in trace.rows(Module)] == ["generator", "", "critic", ""]
    assert [*module_names(trace).values()] == ["generator", "generator.0", "critic", "Linear"]
