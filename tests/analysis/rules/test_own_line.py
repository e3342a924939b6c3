from __future__ import annotations

import pytest

from gradscope.analysis.findings import Rewrite
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.rules.own_line import (
    MODE_STAYS,
    as_call,
    carried_detached,
    detached,
    guarded,
    out_of_place,
    renamed_call,
    rewritten,
    without_call,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return F.softmax(self.fc(x), dim=1)", "return self.fc(x)"),
        ("y = self.head(h).softmax(-1)", "y = self.head(h)"),
        ("nn.LogSoftmax(dim=1),", ""),
        ("loss = criterion(model(x), y)", ""),
        ("return F.softmax(", ""),
    ],
)
def test_a_call_is_left_out_of_a_line_where_that_can_be_told(line: str, expected: str) -> None:
    assert without_call(line, "softmax", "log_softmax") == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = torch.sqrt(x)", "y = torch.sqrt(x.clamp_min(0))"),
        ("y = x.sum(1).sqrt()", "y = x.sum(1).clamp_min(0).sqrt()"),
        ("y = ((a - b).pow(2).sum(1)).sqrt().mean()", ""),
    ],
)
def test_a_guarded_line_is_a_line_of_python(line: str, expected: str) -> None:
    assert guarded(line, ["sqrt"], "{}.clamp_min(0)") == expected


def test_a_call_is_renamed() -> None:
    line = "q = F.softmax(topics(x), dim=1)"

    assert renamed_call(line, "softmax", "log_softmax") == "q = F.log_softmax(topics(x), dim=1)"
    assert renamed_call("q = F.relu(x)", "softmax", "log_softmax") == ""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("h += 1", "h = h + 1"),
        ("h *= a + b", "h = h * (a + b)"),
        ("y.add_(1)", "y = y.add(1)"),
        ("F.relu(x, inplace=True)", ""),
        ("x[0] += 1", ""),
        ("if a:", ""),
    ],
)
def test_a_write_in_place_is_written_out_of_place(line: str, expected: str) -> None:
    assert out_of_place(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hidden = torch.tanh(hidden + w)", "hidden = torch.tanh(hidden.detach() + w)"),
        ("hidden = cell(x, hidden)  # carried", "hidden = cell(x, hidden.detach())  # carried"),
        ("hidden = hidden * hidden", ""),
        ("out, hidden = rnn(x, hidden)", ""),
    ],
)
def test_what_a_line_carries_on_is_detached(line: str, expected: str) -> None:
    assert carried_detached(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("losses.append(loss)  # kept", "losses.append(loss.detach())"),
        ("total += loss", "total += loss.detach()"),
        ("total = total + loss", "total = (total + loss).detach()"),
        ('self.last["é"] = loss', 'self.last["é"] = loss.detach()'),
        ("losses.append(a, b)", ""),
        ("losses = []", ""),
        ("a, b = x, y", ""),
        ("total += loss; n += 1", ""),
    ],
)
def test_what_a_line_stores_is_detached(line: str, expected: str) -> None:
    assert detached(line) == expected


@pytest.mark.parametrize(
    ("line", "code", "unsafe"),
    [
        ("optimizer.zero_grad  # each step", "optimizer.zero_grad()", ""),
        ("model.eval", "model.eval()", MODE_STAYS),
        ("ema.update", "ema.update()", "it may need arguments"),
        ("model.eval; n = 1", None, ""),
        ("model.eval()", None, ""),
    ],
)
def test_a_method_that_is_only_named_is_called(line: str, code: str | None, unsafe: str) -> None:
    site = Site("a.py:1", line, "a.py", 1)

    assert as_call(site) == (None if code is None else Rewrite(site, code, unsafe))


def test_a_line_that_stays_the_same_or_is_in_no_file_has_no_rewrite() -> None:
    assert rewritten(Site("a.py:1", "x = 1  # one", "a.py", 1), "x = 1") is None
    assert rewritten(Site("a.py:1", "x = 1", "a.py", 1), "") is None
    assert rewritten(Site("", "x = 1"), "x = 2") is None
