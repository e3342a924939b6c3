"""Terms and factors of a loss that have no effect, and similar ones that are intended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.rules.test_advice import told

RATIO = """
torch.manual_seed(0)
net = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
seen = torch.randn(6, 3)
done = torch.tensor([0, 1, 0, 1, 1, 0])
gain = torch.linspace(-1, 1, 6)
with torch.no_grad():
    first = net(seen).log_softmax(1).gather(1, done[:, None])
for _ in range(5):
    with torch.no_grad():
        old = net(seen).log_softmax(1).gather(1, done[:, None])
    ratio = (net(seen).log_softmax(1).gather(1, done[:, None]) - old).exp()
    bounded = ratio.clamp(0.8, 1.2)
    loss = -torch.minimum(ratio * gain[:, None], bounded * gain[:, None]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_an_old_side_that_is_computed_again_in_every_step_is_named(tmp_path: Path) -> None:
    found = told(RATIO, tmp_path)

    assert [*found] == ["GS709"]
    assert "snippet_0.py:12 was 1 in all 5 recorded calls" in found["GS709"].message
    assert "snippet_0.py:13 never acts" in found["GS709"].message


def test_an_old_side_of_before_the_steps_is_no_finding(tmp_path: Path) -> None:
    assert not told(RATIO.replace("- old", "- first"), tmp_path)


def test_an_old_side_next_to_another_block_without_gradients_is_no_finding(tmp_path: Path) -> None:
    new_data = (
        "for _ in range(5):\n    with torch.no_grad():\n        seen = seen + net(seen).mean()"
    )

    assert not told(RATIO.replace("for _ in range(5):", new_data), tmp_path)


SAMPLED = """
torch.manual_seed(0)
net = torch.nn.Linear(3, 4)
judge = torch.nn.Linear(2, 1).requires_grad_(False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    centre, spread = net(torch.randn(8, 3)).chunk(2, 1)
    aim = torch.distributions.Normal(centre, spread.exp())
    throw = aim.sample()
    chance = aim.log_prob(throw).sum(1)
    score = judge(throw)[:, 0]
    loss = (0.1 * chance - score).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_log_prob_of_a_sample_with_the_same_weight_for_each_is_named(tmp_path: Path) -> None:
    found = told(SAMPLED, tmp_path)

    assert [*found] == ["GS415"]
    assert "with the same weight for each sample" in found["GS415"].message
    assert "`throw = aim.rsample()`" in found["GS415"].fix


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("aim.sample()", "aim.rsample()"),
        ("0.1 * chance - score", "chance * score"),  # REINFORCE
        ("0.1 * chance - score", "chance * score.sum().item()"),
        ("0.1 * chance", "chance[score > score.median()].mean()"),
        ("0.1 * chance - score", "chance * chance"),
        ("aim.log_prob", "torch.distributions.Normal(centre, 1.0).log_prob"),
    ],
)
def test_a_sample_that_is_weighed_or_has_a_graph_is_no_finding(
    tmp_path: Path, old: str, new: str
) -> None:
    assert not told(SAMPLED.replace(old, new), tmp_path)


DERIVED = """
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    x = torch.rand(6, 1, requires_grad=True)
    u = net(x)
    first = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x, retain_graph=True)[0]
    residual = u + first - 0.1 * second
    loss = residual.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_second_derivative_without_a_graph_in_a_loss_is_named(tmp_path: Path) -> None:
    found = told(DERIVED, tmp_path)

    assert [*found] == ["GS414"]
    assert "`second`" in found["GS414"].message
    assert "snippet_0.py:8, has no graph" in found["GS414"].message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x, retain_graph=True", "x, create_graph=True"),
        ("0.1 * second", "0.1 * second.detach()"),
        ("0.1 * second", "0.1 * first.detach()"),  # only for a log
    ],
)
def test_a_second_derivative_with_a_graph_or_that_is_cut_on_purpose_is_no_finding(
    tmp_path: Path, old: str, new: str
) -> None:
    assert not told(DERIVED.replace(old, new), tmp_path)
