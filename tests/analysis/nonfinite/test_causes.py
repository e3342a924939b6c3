"""One cause, one finding: what came of a birth belongs to it."""

from __future__ import annotations

import gradscope.runtime as torch
from gradscope.analysis.report import inspect
from gradscope.record.recorder import record


def test_gradients_that_overflow_together_are_one_finding() -> None:
    torch.manual_seed(0)  # a loss that is small enough for a product with 3e38
    with record(level="values") as recording:
        model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(6)))
        loss = model(torch.ones(2, 4)).sum()
        (loss * 3e38).backward(torch.tensor(3.0))

    (finding,) = inspect(recording.trace()).findings
    assert finding.message.startswith("Inf first produced in the backward of ")
    assert "what followed from it" in finding.why


def test_two_causes_in_one_backward_are_two_findings() -> None:
    with record(level="values") as recording:
        x = torch.zeros(3, requires_grad=True)
        first = x.sqrt()
        second = (x * 2).sqrt()
        (first + second).sum().backward()

    found = [each.message.split(" (")[0] for each in inspect(recording.trace()).findings]
    assert len(found) == 2
    assert all("in the backward of SqrtBackward0" in each for each in found)


def test_the_backward_of_a_call_whose_result_was_infinite_is_no_cause_of_its_own() -> None:
    with record(level="values") as recording:
        x = torch.zeros(3, requires_grad=True)
        (x * 1).log().sum().backward()

    (finding,) = inspect(recording.trace()).findings
    assert finding.message.startswith("Inf first produced in the forward call log")
    assert "Inf in the backward of LogBackward0" in finding.why


def test_a_mask_is_no_cause_of_what_a_program_makes_of_it() -> None:
    with record(level="values") as recording:
        x = torch.ones(2, 2, requires_grad=True)
        (x.masked_fill(torch.ones(2, 2, dtype=torch.bool), -torch.inf)).softmax(1).sum().backward()

    (finding,) = inspect(recording.trace()).findings
    assert finding.message.startswith("NaN produced from an Inf in the forward call")
