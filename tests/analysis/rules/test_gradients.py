"""Gradients that are small by construction, and learn all the same."""

from __future__ import annotations

from pathlib import Path

from gradscope.analysis.report import inspect
from tests.analysis.rules.test_snippets import recorded

LORA = """
class Adapted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(4, 4).requires_grad_(False)
        self.a = torch.nn.Linear(4, 2, bias=False)
        self.b = torch.nn.Linear(2, 4, bias=False)
        torch.nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + 0.5 * self.b(self.a(x))

net = torch.nn.Sequential(Adapted(), Adapted(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(3, 4)).pow(2).mean().backward()
    optimizer.step()
"""


def test_a_weight_before_one_that_begins_at_zero_has_no_vanishing_gradient(tmp_path: Path) -> None:
    report = inspect(recorded(LORA, tmp_path), rules=["GS801"])

    assert report.checked == ("GS801",)
    assert [each.message for each in report.findings] == []


SIDE_BRANCH = """
layers = torch.nn.ModuleList([torch.nn.Linear(4, 4, bias=False) for _ in range(4)])
side, main, other, last = layers
optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3)
x = torch.ones(3, 4)
for _ in range(3):
    optimizer.zero_grad()
    last(1e-9 * side(x) + main(x) + other(x)).pow(2).mean().backward()
    optimizer.step()
"""


def test_a_weight_beside_a_strong_one_on_the_same_input_has_no_vanishing_gradient(
    tmp_path: Path,
) -> None:
    report = inspect(recorded(SIDE_BRANCH, tmp_path), rules=["GS801"])

    assert report.checked == ("GS801",)
    assert [each.message for each in report.findings] == []


STEP_SIZES = """
layers = torch.nn.ModuleList([torch.nn.Linear(4, 4, bias=False) for _ in range(10)])
optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3)
for _ in range(3):
    optimizer.zero_grad()
    x = torch.ones(3, 4)
    for i in range(0, 9, 3):
        state = layers[i](x)
        x = x + state + 1e-9 * layers[i + 2](layers[i + 1](state))
    layers[9](x).pow(2).mean().backward()
    optimizer.step()
"""


def test_weights_of_small_branches_in_each_block_have_no_vanishing_gradient(tmp_path: Path) -> None:
    report = inspect(recorded(STEP_SIZES, tmp_path), rules=["GS801"])

    assert report.checked == ("GS801",)
    assert [each.message for each in report.findings] == []


VANISHES_AFTER_ANOTHER = """
judge = torch.nn.Linear(4, 1)
judge(torch.ones(3, 4)).mean().backward()
layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(6)])
optimizer = torch.optim.SGD([*layers.parameters(), *judge.parameters()], lr=1e-9)
for _ in range(3):
    optimizer.zero_grad()
    x = torch.ones(3, 4)
    for layer in layers:
        x = 1e-2 * layer(x)
    judge(x).mean().backward()
    optimizer.step()
"""


def test_strong_gradients_of_another_model_that_ran_first_hide_nothing(tmp_path: Path) -> None:
    report = inspect(recorded(VANISHES_AFTER_ANOTHER, tmp_path), rules=["GS801"])

    assert len(report.findings) == 1


LARGE = """
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr={lr})
x = torch.ones(64, 8) * {scale}
for _ in range(5):
    optimizer.zero_grad()
    (net(x) - x).pow(2).sum().backward()
    optimizer.step()
"""


def exploding(code: str, folder: Path) -> list[str]:
    return [each.message for each in inspect(recorded(code, folder), rules=["GS802"]).findings]


def test_gradients_of_a_large_loss_that_falls_do_not_explode(tmp_path: Path) -> None:
    assert exploding(LARGE.format(lr=1e-11, scale=1e4), tmp_path) == []


def test_gradients_that_grow_from_step_to_step_do(tmp_path: Path) -> None:
    (message,) = exploding(LARGE.format(lr=1e-2, scale=3.0), tmp_path)

    assert "-fold since the first step" in message


def test_so_do_those_after_which_nothing_is_finite(tmp_path: Path) -> None:
    (message,) = exploding(LARGE.format(lr=1e3, scale=3.0), tmp_path)

    assert message.endswith("and later values are not finite")
