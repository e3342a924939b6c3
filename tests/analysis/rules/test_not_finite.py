"""What is said at level `engine` of numbers that were read and are none, and of what made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.report import inspect
from gradscope.analysis.rules import all_rules
from tests.analysis.rules.test_snippets import recorded

(RULE,) = (rule for rule in all_rules() if rule.id == "GS202")


def found(program: str, folder: Path) -> list[Finding]:
    findings = inspect(recorded(program, folder, rule=RULE)).findings
    return [each for each in findings if each.rule == RULE.id]


SOUND = """\
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
mask = torch.tensor([0.0, float("-inf")])
for step in range(4):
    optimizer.zero_grad()
    scores = layer(torch.ones(2, 3)) + mask
    repr(scores)
    loss = scores.softmax(1).sum()
    scores[:0].mean().item()
    if step == 2 and (loss * float("nan")).item() != 0:
        continue
    if step == 1:
        wrong = loss * float("nan")
        wrong.backward()
        if wrong.item() != 0:
            optimizer.zero_grad()
            continue
    loss.backward()
    optimizer.step()
"""


def test_what_is_masked_a_mean_of_nothing_and_losses_left_out_are_notes(tmp_path: Path) -> None:
    assert {each.severity for each in found(SOUND, tmp_path)} == {Severity.NOTE}


LATE = """\
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(7):
    optimizer.zero_grad()
    x = torch.ones(2, 3) * (0.0 if step == 5 else 1.0)
    h = layer(x).pow(2) / 3.0
    loss = (h.sum() + 1).log() + (x.sum() * layer.bias.sum()).abs().sqrt()
    loss.backward()
    optimizer.step()
    loss.item()
"""


def test_the_step_is_named_and_what_can_be_infinite_in_a_backward_alone(tmp_path: Path) -> None:
    (only,) = found(LATE, tmp_path)
    said = only.message.replace(f"{tmp_path.name}/", "")
    assert said.startswith("NaN: bias holds NaN after the step at snippet_0.py:9 (step 5)")
    assert "though its loss was finite: it was produced in the backward" in said
    # neither the log of what one was added to, nor the square, nor the division by three
    (named,) = said.partition("calls of that step that may have produced it include ")[2].split(
        "; c"
    )
    assert named.startswith("sqrt at snippet_0.py:7 (of a negative number")
    assert "--level values --steps 4:5" in only.fix


IN_A_CLOSURE = """\
layer = torch.nn.Linear(3, 1)
optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=2)
x = torch.zeros(4, 3)
def closure():
    optimizer.zero_grad()
    loss = ((layer(x) - 1) / x.sum()).pow(2).mean()
    loss.backward()
    return loss
for step in range(2):
    optimizer.step(closure)
"""


def test_what_a_closure_computes_is_of_the_step_that_calls_it(tmp_path: Path) -> None:
    (only,) = found(IN_A_CLOSURE, tmp_path)
    assert "snippet_0.py:6 (by 0, as it was here)" in only.message
    assert only.site.line == 10  # the step, where it was noticed


NOTHING_LEFT = """\
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(4):
    wanted = torch.arange(2) > step
    loss = layer(torch.ones(2, 3))[wanted].mean() / 2
    loss.backward()
    if step % 2:
        optimizer.step()
        optimizer.zero_grad()
    loss.item()
"""


def test_a_loss_of_nothing_counts_where_parameters_stay_finite_too(tmp_path: Path) -> None:
    (only,) = found(NOTHING_LEFT, tmp_path)
    assert only.severity is Severity.ERROR
    assert "mean at" in only.message
    assert "(of an empty tensor)" in only.message


OF_DATA = """\
import numpy
def returns_of(rewards):
    out = numpy.array(rewards) / 1.0
    with numpy.errstate(all="ignore"):
        return torch.from_numpy((out - out.mean()) / out.std()).float()
layer = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(2):
    wanted = returns_of([1.0, 1.0])
    loss = (layer(torch.ones(1, 3)).sum() * wanted).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss.item()
"""


def test_calls_that_leave_no_node_are_named_as_the_source_has_them(tmp_path: Path) -> None:
    (only,) = found(OF_DATA, tmp_path)
    said = only.message.replace(f"{tmp_path.name}/", "")
    assert "source, calls that may have produced it include div at snippet_0.py:5 (by 0)" in said


IN_A_HOOK = """\
def rescale(grad):
    norm = grad.norm(dim=1, keepdim=True)
    return grad / norm
layer = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(2):
    out = layer(torch.ones(2, 3))
    out.register_hook(rescale)
    optimizer.zero_grad()
    (out[0].sum() * 2).backward()
    optimizer.step()
    out.sum().item()
"""


def test_in_a_hook_too(tmp_path: Path) -> None:
    (only,) = found(IN_A_HOOK, tmp_path)
    assert only.message.endswith(f"div at {tmp_path.name}/snippet_0.py:3 (by 0)")
    assert only.site.line == 11  # the step, where it was noticed


MANY_TABLES = """\
import numpy
tables = [torch.from_numpy(numpy.ones((4, 3))).float() for _ in range(4)]
bounds = torch.tensor([float(len(tables))])
limits = torch.tensor([float(bounds)])
names = torch.tensor([float(limits)])
scales = torch.tensor([float(names)])
layer = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
noise = torch.randn(4, 1)
tables[2][1, 1] = float("nan")
for table in tables:
    loss = (layer(table) + noise).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss.item()
"""


def test_at_most_three_places_of_the_data_are_named_arrays_first(tmp_path: Path) -> None:
    (only,) = found(MANY_TABLES, tmp_path)
    _, _, places = only.why.replace(f"{tmp_path.name}/snippet_0.py:", "").partition("from data at ")
    assert places == "2 (from_numpy), 3 (tensor), 4 (tensor)"


ONE_LINE = """\
layer = torch.nn.Linear(3, 2)
layer.bias.data.zero_()
def cost(s, x):
    return s.log().mean() + (1 / (s - s)).mean() + torch.acos(x + 5).mean() + (x / (s - s)).mean()
x = layer(torch.zeros(4, 3))
cost(torch.relu(x), x).backward()
"""


def test_of_all_that_is_born_on_a_line_one_finding_tells_the_first_first(tmp_path: Path) -> None:
    (only,) = inspect(recorded(ONE_LINE, tmp_path), rules=["GS201"]).findings
    assert only.message.startswith("Inf first produced in the forward call log")
    _, _, others = only.why.partition("also first produced on this line: ")
    assert others.startswith(
        "Inf in the forward call reciprocal, NaN in the forward call acos, NaN in the forward call"
        " div"
    )


def test_the_mean_of_too_large_numbers_is_not_said_to_be_of_none(tmp_path: Path) -> None:
    program = "x = torch.full((2,), 3e38, requires_grad=True)\nx.mean().backward()\n"
    (only,) = inspect(recorded(program, tmp_path), rules=["GS201"]).findings
    assert "beyond the range of the dtype" in only.why


MASKED = """\
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
x = torch.randn(4, 3)
def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum()
for step in range(8):
    p = layer(x).softmax(1)
    entropy = -(p * p.log()).sum()
    mask = (torch.arange(4) < (0 if step == 6 else 3)).float()
    loss = masked_mean(p[:, 0], mask) - entropy / 4.0
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss.item()
"""


def test_a_division_by_a_tensor_is_named_though_its_divisor_is_known_of_another_step(
    tmp_path: Path,
) -> None:
    (only,) = found(MASKED, tmp_path)
    said = only.message.replace(f"{tmp_path.name}/snippet_0.py", "x.py")
    assert "calls of that step that may have produced it include " in said
    assert "log at x.py:8 (of 0 or less)" in said
    assert "div at x.py:5 (by 0)" in said
    assert "x.py:10" not in said  # 4.0 never is 0
    assert only.site.line == 13  # the step: no line is blamed that may be innocent
    assert "clamp" not in only.fix


CUSTOM = """\
class SafeLog(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, torch.log(x), torch.zeros_like(x))
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / x
layer = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(3):
    x = torch.relu(layer(torch.ones(1, 2)) - (9.0 if step == 1 else -9.0))
    loss = (x * SafeLog.apply(x)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_reached_a_gradient_comes_first_and_what_was_masked_out_is_a_note(
    tmp_path: Path,
) -> None:
    cause, masked = inspect(recorded(CUSTOM, tmp_path), rules=["GS201"]).findings
    assert cause.severity is Severity.ERROR
    assert "NaN first produced in the call div during a backward" in cause.message
    assert " in step 1: all 2 elements are NaN" in cause.message
    assert masked.severity is Severity.NOTE
    assert masked.message.startswith("Inf first produced in the forward call log")
    assert masked.message.endswith("; it was masked out: it reached no loss and no gradient")


WHERE_TRAP = """\
layer = torch.nn.Linear(2, 2)
layer.bias.data.zero_()
x = torch.relu(layer(torch.zeros(1, 2)))
loss = torch.where(x > 0, torch.log(x), torch.zeros_like(x)).sum()
loss.backward()
"""


def test_a_masked_log_whose_derivative_is_not_finite_is_an_error(tmp_path: Path) -> None:
    (only,) = inspect(recorded(WHERE_TRAP, tmp_path), rules=["GS201"]).findings
    assert only.severity is Severity.ERROR
    assert "masked out" not in only.message


PRINTED = """\
layer = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(3):
    loss = (layer(torch.ones(2, 3)) * (0.0 if step else 1.0)).abs().log().sum()
    optimizer.zero_grad()
    loss.backward()
    SHOW
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("show", "said"),
    [
        ("print(loss)", "; its loss was Inf at x.py:7;"),
        ("print(loss.detach())", "; x.py:7 printed Inf;"),
        ("text = str(loss.detach())", "; x.py:7 showed Inf;"),
    ],
)
def test_a_line_that_prints_is_not_said_to_return(show: str, said: str, tmp_path: Path) -> None:
    (only,) = found(PRINTED.replace("SHOW", show), tmp_path)
    assert said in only.message.replace(f"{tmp_path.name}/snippet_0.py", "x.py")
