"""Gradients that ranks combine in part, or with those of other parameters; programs with gloo."""

from __future__ import annotations

import pytest

from tests.analysis.ranks.test_rank_rules import found_in
from tests.analysis.ranks.test_training_rules import trained
from tests.record.running import House

pytestmark = pytest.mark.torch

BEGIN = """
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
def train(model, average):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(1 + rank)
    for step in range(6):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        (model(x) - x[:, :1]).square().mean().backward()
        average([*model.parameters()], step)
        optimizer.step()
    dist.destroy_process_group()
def each_one(parameters, step):
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad /= size
"""
HEADS = """
class Net(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(4, 1) for name in names})
    def forward(self, x):
        return self.heads["a"](x).tanh() + 2 * self.heads["b"](x).sigmoid()
torch.manual_seed(0)
whole = Net("ab").state_dict()
net = Net("ba" if rank else "ab")
net.load_state_dict(whole)
def flat(parameters, step):
    buffer = torch.cat([each.grad.flatten() for each in parameters]) / size
    dist.all_reduce(buffer)
    for each, part in zip(parameters, buffer.split([each.numel() for each in parameters])):
        each.grad.copy_(part.view_as(each))
"""
SORTED = "lambda every, step: flat([each for _, each in sorted(net.named_parameters())], step)"
PLAIN = "torch.manual_seed(0)\nnet = nn.Linear(4, 2)\n"
SCRIPTS = {
    "averaged now and then": PLAIN
    + "train(net, lambda every, step: each_one(every, step) if step % 3 == 2 else None)",
    "averaged in all steps": PLAIN + "train(net, each_one)",
    "filled by position": HEADS + "train(net, flat)",
    "wrapped in other orders": HEADS
    + "model = DistributedDataParallel(net)\ntrain(model, lambda every, step: None)",
    "filled by name": HEADS + f"train(net, {SORTED})",
    "each trains alone": HEADS + "train(net, lambda every, step: dist.barrier())",
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    scripts = {kind: BEGIN + script for kind, script in SCRIPTS.items()}
    return trained(tmp_path_factory.mktemp("combined"), scripts)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("filled by position", "dist.all_reduce(buffer)"),
        ("wrapped in other orders", ".backward()"),
    ],
)
def test_a_rank_that_uses_the_gradients_of_other_parameters_is_named(
    house: House, kind: str, line: str
) -> None:
    [finding] = found_in(house, kind)

    assert finding.rule == "GS031"
    assert line in finding.site.text
    assert finding.message.startswith(
        "Rank 1 used for heads.b.weight the gradient that rank 0 used for heads.a.weight "
        "(4 parameters are exchanged)"
    )
    assert "heads.a.weight is parameter 0 of the optimizer on rank 0" in finding.why


@pytest.mark.parametrize("kind", ["filled by name", "each trains alone", "averaged in all steps"])
def test_nothing_is_said_where_each_parameter_gets_its_own_gradient(
    house: House, kind: str
) -> None:
    assert found_in(house, kind) == ()
