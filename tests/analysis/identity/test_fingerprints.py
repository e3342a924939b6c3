from __future__ import annotations

import pytest

import gradscope
import gradscope.runtime
from gradscope.analysis.identity.fingerprints import shortened
from gradscope.analysis.report import inspect
from gradscope.trace.schema import Frame, Op, Place, Stack, Tensor, Value
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

LINE = "y = x.log()"


def logs(*names: str, line: int = 4, first: int = 0, bad: int = 1, text: str = LINE) -> Trace:
    """Calls of these names at lines of one text, each with results of which some are −Inf."""
    rows = []
    for place, name in enumerate(names, first):
        rows += [
            Tensor(2 * place),
            Tensor(2 * place + 1, op=place),
            Value(2 * place, place=Place.LEAF, tensor=2 * place, count=9, t=3 * place),
            Op(place, name, inputs=(2 * place,), outputs=(2 * place + 1,), stack=place),
            Value(
                2 * place + 1, place=Place.OP_OUTPUT, op=place, tensor=2 * place + 1, index=0,
                count=9, neginf=bad, bad=(bad,), t=3 * place + 1,
            ),
            Frame(place, "train.py", line + place - first, "<module>", text),
            Stack(place, place),
        ]  # fmt: skip
    return trace_of(*rows, meta={"level": "values"})


def ids(trace: Trace) -> list[str]:
    return [finding.id for finding in inspect(trace).findings]


def test_an_id_does_not_depend_on_lines_ids_and_counts() -> None:
    assert ids(logs("log", line=4)) == ids(logs("log", line=40, first=7, bad=3))


def test_another_line_or_another_name_is_another_finding() -> None:
    assert len({*ids(logs("log")), *ids(logs("log", text="z = x.log()")), *ids(logs("log2"))}) == 3


def test_of_those_that_are_alike_each_has_its_own_and_the_first_ones_stay() -> None:
    trace, more = (logs("log", "log1p"), logs("log", "log1p", "log2"))

    assert len(set(ids(more))) == 3
    assert ids(more)[:2] == ids(trace)


def test_as_few_digits_are_shown_as_tell_ids_apart() -> None:
    assert shortened(["abcd11", "abcd22"]) == {"abcd11": "abcd1", "abcd22": "abcd2"}
    assert shortened(["abcd11"] * 2) == {"abcd11": "abcd"}


@pytest.mark.torch
def test_both_engines_give_a_finding_the_same_id() -> None:
    import torch as pytorch

    found = []
    for torch in (gradscope.runtime, pytorch):
        recording = gradscope.record(
            level="values", on="torch" if torch is pytorch else "gradscope"
        )
        with recording:
            x = torch.zeros(3, requires_grad=True)
            x.sqrt().sum().backward()
        found.append(ids(recording.trace()))

    assert found[0] == found[1] != []
