from __future__ import annotations

import pytest

from gradscope.analysis.rules.own_line import (
    carried_detached,
    guarded,
    out_of_place,
    renamed_call,
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
