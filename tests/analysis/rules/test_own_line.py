from __future__ import annotations

import pytest

from gradscope.analysis.rules.own_line import renamed_call, without_call


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


def test_a_call_is_renamed() -> None:
    line = "q = F.softmax(topics(x), dim=1)"

    assert renamed_call(line, "softmax", "log_softmax") == "q = F.log_softmax(topics(x), dim=1)"
    assert renamed_call("q = F.relu(x)", "softmax", "log_softmax") == ""
