"""An error raised while it is recorded names its lines, and the finished trace names the same."""

from __future__ import annotations

import functools
import linecache
import pickle
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from gradscope.analysis.findings import Finding
from gradscope.analysis.report import inspect
from gradscope.record.from_runtime.error_lines.recent import WRITES, Recent
from gradscope.record.from_runtime.hot.compiling import Compiling
from gradscope.record.recorder import record
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.record.running import House
from tests.runtime.both import runtime

FILE = "train.py"
WROTE = "# wrote"
FIRST = "# released"
BACK = "# leads back"


@contextmanager
def program(text: str) -> Iterator[Any]:
    """The program compiled, with its lines where they are looked for."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    try:
        yield compile(text, FILE, "exec")
    finally:
        del linecache.cache[FILE]


def failed(text: str, level: str = "engine") -> tuple[str, Trace]:
    """The note of the error a program ends in, and its trace, which keeps all rules."""
    torch = runtime()
    with program(text) as code, record(level=level) as made, pytest.raises(RuntimeError) as raised:
        exec(code, {"torch": torch, "threading": threading})
    trace = made.trace()
    assert check(trace) == []
    (note,) = raised.value.__notes__
    return note, trace


def marked(text: str, mark: str) -> list[int]:
    lines = enumerate(text.splitlines(), start=1)
    return [number for number, line in lines if line.endswith(mark)]


def found(trace: Trace, rule: str) -> Finding:
    (finding,) = [finding for finding in inspect(trace).findings if finding.rule == rule]
    return finding


LEAF = "x = torch.ones(3, requires_grad=True)\n"

WRITES_OF_ALL_KINDS = {
    "a result": LEAF + "y = x.exp()\ny.add_(1)  # wrote\ny.sum().backward()",
    "an input": LEAF + "w = torch.ones(3)\ny = x * w\nw.zero_()  # wrote\ny.sum().backward()",
    "a view of it": LEAF + "y = x.exp()\ny[0].add_(1)  # wrote\ny.sum().backward()",
    "its base": LEAF + "z = x * 2\ny = z[:2].exp()\ny.mul_(2)  # wrote\ny.sum().backward()",
    "an alias": LEAF + "y = x.exp()\ny.detach().zero_()  # wrote\ny.sum().backward()",
    "an item": LEAF + "y = x.exp()\ny[1] = 5  # wrote\ny.sum().backward()",
    "under no_grad": LEAF
    + "y = x.exp()\nwith torch.no_grad():\n    y.copy_(x)  # wrote\ny.sum().backward()",
    "a parameter": LEAF
    + "w = torch.ones(3, requires_grad=True)\nopt = torch.optim.SGD([w], lr=1.0)\n"
    "w.grad = torch.ones(3)\ny = x * w\nopt.step()  # wrote\ny.sum().backward()",
    "what a function saved": """\
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad
x = torch.ones(3, requires_grad=True)
y = x * 1
z = Square.apply(y)
y.add_(1)  # wrote
z.sum().backward()""",
    "another thread": LEAF
    + "y = x.exp()\ndef work():\n    y.add_(1)  # wrote\nthread = threading.Thread(target=work)\n"
    "thread.start()\nthread.join()\ny.sum().backward()",
    "a custom function": """\
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.detach().numpy()[...] *= 2
        return x
    @staticmethod
    def backward(ctx, grad):
        return 2 * grad
x = torch.ones(3, requires_grad=True)
y = x * 1
z = y * y
Double.apply(y)  # wrote
z.sum().backward()""",
    "nobody but says so": LEAF
    + "y = x.exp()\ntorch.autograd.graph.increment_version(y)  # wrote\ny.sum().backward()",
    "inside a hook": LEAF
    + "y = x.exp()\nz = y * 1\ndef hook(grad):\n    y.detach().zero_()  # wrote\n"
    "z.register_hook(hook)\nz.sum().backward()",
}


@pytest.mark.parametrize("level", ["engine", "values", "full"])
@pytest.mark.parametrize("text", WRITES_OF_ALL_KINDS.values(), ids=WRITES_OF_ALL_KINDS)
def test_the_line_that_wrote_is_named_at_once_and_later(text: str, level: str) -> None:
    note, trace = failed(text, level)
    (line,) = marked(text, WROTE)

    assert [int(n) for n in re.findall(rf" at {FILE}:(\d+).*wrote to it", note)] == [line]
    assert found(trace, "GS302").site.place == f"{FILE}:{line}"


SECOND_BACKWARDS = {
    "the same graph": LEAF
    + "y = x.exp().sum()\ny.backward()  # released\ny.backward()  # leads back",
    "grad, then backward": LEAF
    + "y = x.exp().sum()\ntorch.autograd.grad(y, x)  # released\ny.backward()  # leads back",
    "a part of it": LEAF
    + "y = x.exp()\ny.sum().backward()  # released\nz = y * 2  # leads back\nz.sum().backward()",
    "a hidden state": """\
w = torch.ones(3, 3, requires_grad=True)
hidden = torch.ones(3)
for step in range(3):
    hidden = (w @ hidden).tanh()  # leads back
    loss = hidden.sum()
    loss.backward()  # released""",
    "through a node that saved nothing": LEAF + "y = x.exp()\ny.sum().backward()  # released\n"
    "z = (y + 1).neg()  # leads back\n(z * z).sum().backward()",
    "a custom function": """\
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad
x = torch.ones(3, requires_grad=True)
y = Square.apply(x).sum()
y.backward()  # released
y.backward()  # leads back""",
    "a node that is listened to": LEAF
    + "y = x.exp()\ny.register_hook(lambda grad: None)\nz = y.sum()\nz.backward()  # released\n"
    "z.backward()  # leads back",
    "another thread": LEAF + "y = x.exp().sum()\ndef work():\n    y.backward()  # released\n"
    "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    "y.backward()  # leads back",
}


@pytest.mark.parametrize("text", SECOND_BACKWARDS.values(), ids=SECOND_BACKWARDS)
def test_the_backward_that_released_is_named_at_once_and_later(text: str) -> None:
    note, trace = failed(text)
    (first,), (back,) = marked(text, FIRST), marked(text, BACK)
    finding = found(trace, "GS303")

    assert f"The backward called at {FILE}:{first} (" in note
    assert f"called at {FILE}:{first}, and a second backward" in finding.message
    assert f"{FILE}:{back} (" in note
    assert finding.site.place == f"{FILE}:{back}"


def test_what_is_not_recorded_is_not_named() -> None:
    """At level `graph` nobody is told of what backward does."""
    note, trace = failed(SECOND_BACKWARDS["the same graph"], "graph")

    assert "released it." not in note
    assert f"ExpBackward0 was made at {FILE}:2" in note
    assert inspect(trace).findings == ()


def test_the_first_and_the_last_of_many_writes_are_named() -> None:
    writes = "".join(f"y.add_({i})\n" for i in range(5))
    note, trace = failed(f"{LEAF}y = x.exp()\n{writes}y.sum().backward()")

    assert f"add_ at {FILE}:3 (y.add_(0)) wrote to it: version 1." in note
    assert f"add_ at {FILE}:7 (y.add_(4)) wrote to it: version 5." in note
    assert "There were 3 more writes in between." in note
    assert "and 4 more after it" in found(trace, "GS302").message


def test_of_very_many_writes_the_last_are_remembered() -> None:
    note, trace = failed(
        f"{LEAF}y = x.exp()\nfor i in range({3 * WRITES}):\n    y.add_(i)\ny.sum().backward()"
    )

    assert f"wrote to it: version {3 * WRITES}." in note
    assert found(trace, "GS302").site.place == f"{FILE}:4"


def test_a_write_seen_by_an_earlier_recording_is_told_by_its_name_alone() -> None:
    torch = runtime()
    with program("y.add_(1)\n") as code:
        y = torch.ones(3, requires_grad=True).exp()
        with record():
            exec(code, {"y": y})
        with record(), pytest.raises(RuntimeError) as raised:
            y.sum().backward()

    (note,) = raised.value.__notes__
    assert "add_ was the last to write to it." in note
    assert "wrote to it: version" not in note


def test_what_was_made_before_the_recording_is_not_named() -> None:
    torch = runtime()
    y = torch.ones(3, requires_grad=True).exp().sum()
    y.backward()
    with record() as recording, pytest.raises(RuntimeError) as raised:
        y.backward()

    (note,) = raised.value.__notes__
    assert "released it." not in note
    assert check(recording.trace()) == []


def test_an_error_that_the_program_handles_is_completed_too() -> None:
    text = f"""{LEAF}for i in range(50):
    y = x.exp()
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError as error:
        notes.append(error.__notes__[0])
"""
    notes: list[str] = []
    with program(text) as code, record() as recording:
        exec(code, {"torch": runtime(), "notes": notes})

    assert len(notes) == 50
    assert all(f"add_ at {FILE}:4 (y.add_(1)) wrote to it" in note for note in notes)
    assert check(recording.trace()) == []


def test_a_compiled_recording_knows_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("functions", None), ("_records", 1 << 40), ("_tried", False)):
        monkeypatch.setattr(Compiling, name, value)
    text = f"""{LEAF}for i in range(2000):
    (x * 2).exp().sum().backward()
y = x.exp()  # made
loss = y.sum()
loss.backward()  # released
loss.backward()
"""
    note, _ = failed(text)

    assert Compiling.functions is not None
    assert f"ExpBackward0 was made at {FILE}:4" in note
    assert f"The backward called at {FILE}:6 (loss.backward()  # released) released it." in note


def test_errors_stay_plain_and_can_be_sent_to_another_process() -> None:
    torch = runtime()
    with record(), pytest.raises(RuntimeError) as raised:
        torch.ones(3, requires_grad=True).add_(1)
    again = pickle.loads(pickle.dumps(raised.value))

    assert type(again) is RuntimeError
    assert (str(again), again.slug) == (str(raised.value), "leaf-in-place")
    assert again.__notes__ == raised.value.__notes__


def test_what_is_kept_of_the_past_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscope.record.from_runtime.error_lines.recent.MOST", 100)
    text = f"""{LEAF}for i in range(400):
    y = x.exp()
    y.add_(1)
    y.detach().sum()
"""
    with program(text) as code, record() as recording:
        assert recording.session is not None
        recent = recording.session.source.catalog.recent
        for _ in range(5):
            exec(code, {"torch": runtime()})
            recording.session.flush()

    assert len(recent._full) <= 100
    assert len(recent.calls) <= 200


def test_nothing_is_known_at_first() -> None:
    recent = Recent()

    assert (recent.maker(4), recent.released_by(4), recent.called_at(4)) == (None, None, -1)


class Raising:
    """A hook that answers no question."""

    def __call__(self, grad: Any) -> Any:
        return grad[:1]

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (Raising(), "The hook Raising is at "),
        (Raising().__call__, "The hook Raising.__call__ is at "),
        (functools.partial(Raising(), *()), "The hook partial is at "),
        (Mock(return_value=3), "It was raised in the backward"),
        (len, "It was raised in the backward"),
    ],
    ids=["raising", "method", "partial", "mock", "builtin"],
)
def test_whatever_a_hook_is_the_error_names_it_and_asks_it_nothing(hook: Any, words: str) -> None:
    x = runtime().ones(3, requires_grad=True)
    x.register_hook(hook)
    with record() as recording, pytest.raises((RuntimeError, TypeError)) as raised:
        (x + x).sum().backward()

    assert words in raised.value.__notes__[0].replace("\n", " ")
    assert check(recording.trace()) == []


def test_the_text_of_a_line_is_made_safe_to_show() -> None:
    hostile = "\u202e \x1b[31m " + "a" * 300
    note, _ = failed(f"{LEAF}y = x.exp()\ny.add_(1)  # {hostile}\ny.sum().backward()")

    assert f"{FILE}:3 (y.add_(1)  # \\u202e \\x1b[31m aaa" in note
    assert max(map(len, note.splitlines())) < 200


def test_inference_mode_is_recorded_as_it_runs() -> None:
    """Nobody counts writes there, and asking how many there were would raise."""
    torch = runtime()
    before = torch.ones(3)
    with record() as recording:
        with torch.inference_mode():
            made = torch.ones(3)
            made.add_(1)
            made[0] = before[1]
            made[:2].mul_(before[:2])
        with pytest.raises(RuntimeError, match="cannot be saved for backward"):
            torch.ones(3, requires_grad=True) * made
        x = torch.ones(3, requires_grad=True)
        (x + made).sum().backward()
        with torch.inference_mode():
            x.grad.add_(1)

    assert made.tolist() == [1.0, 2.0, 2.0]
    assert check(recording.trace()) == []


ANOMALY = """
import torch
torch.autograd.set_detect_anomaly(True)
def root(x): return torch.sqrt(x * 0)
x = torch.ones(1, requires_grad=True)
try:
    (root(x) * 0).backward()
except RuntimeError as error:
    print(error)
"""


def test_the_stack_of_anomaly_mode_is_the_scripts(house: House) -> None:
    house.write(ANOMALY)
    told = house.trace("script.py").err

    shown = re.findall(r'File "(?:.*/)?(.*)", line (\d+), in (.*)', told)
    assert shown == [("script.py", "7", "<module>"), ("script.py", "4", "root")]
