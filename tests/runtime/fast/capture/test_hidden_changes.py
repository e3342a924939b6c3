# ruff: noqa: E501 -- lines of programs
"""Changes that no name in a step's code shows at once: a replay is as the step would have been."""

from __future__ import annotations

import builtins
import sys
from typing import Any
from unittest.mock import MagicMock

import pytest

import gradscope.runtime as torch
from gradscope.record.from_runtime.paused import PausedProbe
from gradscope.runtime.core import probe
from gradscope.runtime.fast.capture.captured import Captured
from gradscope.runtime.optim import quick
from tests.runtime.fast.capture.test_replayed_steps import bits

HEAD = """
import collections, dataclasses, enum, functools, math, operator, types
nn, F = torch.nn, torch.nn.functional
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
w, u, x = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), torch.linspace(-1, 1, 8).view(2, 4)
class Config:
    rate = 2.0
class Special(Config): pass
o, plain, options, config = Special(), types.SimpleNamespace(), optimizer.param_groups[0], types.ModuleType("config_of_a_test")
config.rate = 2.0
"""
STEP = """
def step(x, *more, **named):
    optimizer.zero_grad()
    y, k = (model(x) * w).pow(2), 1.0
    {body}
    loss = (y * k).mean()
    loss.backward()
    optimizer.step()
    return {returned}
"""
READS = {
    # what is read, and how it changes; what was there before
    "k = options['lr']": "options['lr'] = 0.03",
    "k = pair[0]['lr']": ("options['lr'] = 0.03", "pair = (options, 1)"),
    "k = optimizer.state_dict()['param_groups'][0]['lr']": "options['lr'] = 0.03",
    "k = rate()": ("options['lr'] = 0.03", "def rate(given=options): return given['lr']"),
    "k = holder.inner.rate": ("plain.rate = 5.0", "plain.rate = 2.0\nclass holder: inner = plain"),
    "k = Outer.Inner.rate": ("Outer.Inner.rate = 5.0", "class Outer:\n    class Inner: rate = 2.0"),
    "k = o.rate": "Special.rate = 5.0",
    "k = Special.rate": "Special.rate = 5.0",
    "k = o.rate + 0": "class Third(Config): rate = 9.0\no.__class__ = Third",
    "k = o.get()": ("Special.get = lambda self: 4.0", "Config.get = lambda self: 2.0"),
    "k = Typed.rate": ("Meta.rate = 4.0", "class Meta(type): rate = 2.0\nclass Typed(metaclass=Meta): pass"),
    "k = own(x).sum()": ("Under.forward = lambda self, x: x * 2", "class Over(nn.Module):\n    def forward(self, x): return x\nclass Under(Over): pass\nown = Under()"),
    "try: k = plain.rate\n    except AttributeError: k = 2.0": "plain.rate = 5.0",
    "try: k = o.other\n    except AttributeError: k = 2.0": "Config.other = 5.0",
    "try: k = config.other\n    except AttributeError: k = 2.0": "config.other = 5.0",
    "try: k = w.rate\n    except AttributeError: k = 2.0": "w.rate = 5.0",
    "try: k = rate.more\n    except AttributeError: k = 2.0": ("rate.more = 5.0", "def rate(): pass"),
    "k = next(map(getattr, [o], ['rate']))": "o.rate = 5.0",
    "k = getattr(config, 'ra' + 'te')": "config.rate = 5.0",
    "k = float('{0.rate}'.format(o))": "o.rate = 5.0",
    "k = own.rate": ("own.rate = 5.0", "class Own:\n    def __init__(self): self.data = dict(rate=2.0)\n    def __getattr__(self, name): return self.data[name]\nown = Own()"),
    "k = own[0]": ("Own.__getitem__ = lambda self, nr: 4.0", "class Own:\n    def __getitem__(self, nr): return 2.0\nown = Own()"),
    "k = own.described": ("described.value = 4.0", "class Described:\n    value = 2.0\n    def __get__(self, *_): return self.value\ndescribed = Described()\nclass Own: described = described\nown = Own()"),
    "k = own.computed": ("Own.computed = property(lambda self: 4.0)", "class Own:\n    @property\n    def computed(self): return 2.0\nown = Own()"),
    "k = users['rate']": ("users['rate'] = 5.0", "users = collections.UserDict(rate=2.0)"),
    "k = users[0]": ("users[0] = 5.0", "users = collections.UserList([2.0])"),
    "k = users['rate'] + 0": ("users['rate'] = 5.0", "users = collections.ChainMap({}, {'rate': 2.0})"),
    "k = cached()": ("plain.rate = 5.0; cached.cache_clear()", "plain.rate = 2.0\n@functools.lru_cache\ndef cached(): return plain.rate\ncached()"),
    "for key in known: k = k * key + known[key]": ("known[1] = known.pop(1)", "known = {1: 2.0, 2: 3.0}"),
    "for key in more[0]: k = k * 2 + more[0][key]": ("given = (x, dict(b=2.0, a=1.0))", "given = (x, dict(a=1.0, b=2.0))"),
    "for key in named: k = k * 2 + named[key]": ("by_name = dict(b=2.0, a=1.0)", "by_name = dict(a=1.0, b=2.0)"),
    "for key in known: k = k * 2 + key": ("known.clear(); known.update([8]); known.add(0)", "known = set()\nknown.add(0)\nknown.add(8)"),
    "k = more[0][Kind.A]": ("pass", "class Kind(enum.Enum): A = 1\ngiven = (x, {Kind.A: 2.0})"),
    "k = more[0][math.inf]": ("pass", "given = (x, {math.inf: 2.0})"),
    "k = RATE_OF_A_TEST": ("builtins.RATE_OF_A_TEST = 5.0", "builtins.RATE_OF_A_TEST = 2.0"),
    "import config_of_a_test; k = config_of_a_test.rate": "config.rate = 5.0",
    "from config_of_a_test import rate; k = rate": "config.rate = 5.0",
    "import config_of_a_test as c; k = c.rate": "modules['config_of_a_test'] = plain; plain.rate = 7.0",
    "k = x.rate": ("x = x * 1; x.rate = 5.0; given = (x,)", "x.rate = 2.0"),
    "k = 1.0 + x._version": "x.add_(0)",
    "k = 1.0 + x.storage_offset()": ("given = (long[1],)", "long = torch.linspace(-1, 1, 16).view(2, 2, 4)\ngiven = (long[0],)"),
    "k = 1.0 + x.untyped_storage().nbytes()": "given = (torch.ones(4, 4)[:2],)",
    "log()": ("pass", "log = functools.partial(print, 'here')"),
    "list(map(print, ['here']))": "pass",
    "y = y + h": ("h.add_(u * 2)", "h = torch.zeros(3)"),
    "y = y + h + 0": ("base.mul_(torch.cat([u, u]))", "base = torch.ones(6)\nh = base[3:]"),
    "y = y + h * 2": ("h.data = torch.full((3,), 5.0)", "h = torch.ones(3)\nv = h.detach()"),
    "y = y + h * v": ("h.data = torch.full((3,), 5.0)", "h = torch.ones(3)\nv = h.detach()"),
    "y = y + h.sum()": ("given = (torch.ones(2, 4),)", "h = torch.linspace(-1, 1, 8).view(2, 4)\ngiven = (h.detach(),)"),
    "pass": "before = F.relu\nF.relu = lambda x, inplace: before(x) * 2\nundo.append(lambda: setattr(F, 'relu', before))",
    "pass; pass": "before = nn.Linear.forward\nnn.Linear.forward = lambda self, x: before(self, x) * 2\nundo.append(lambda: setattr(nn.Linear, 'forward', before))",
    "y = y.tanh()": "before = torch.Tensor.tanh\ntorch.Tensor.tanh = lambda x: before(x) * 2\nundo.append(lambda: setattr(torch.Tensor, 'tanh', before))",
    "y = y + h + known[0]": ("pass", "h, known = torch.zeros(3), [1.0]"),
    "k = 2.0": "before = torch.optim.SGD.step\ntorch.optim.SGD.step = lambda self: print('a step')\nundo.append(lambda: setattr(torch.optim.SGD, 'step', before))",
}  # fmt: skip


def seen(body: str, *, captured: bool, returned: str = "loss.detach()") -> tuple[list[Any], Any]:
    """What each call of a step leaves; the program changes after the sixth."""
    change, before = READS.get(body, ""), ""
    if isinstance(change, tuple):
        change, before = change
    undo: list[Any] = []
    scope: dict[str, Any] = {
        "torch": torch, "__name__": "program", "undo": undo, "builtins": builtins, "by_name": {},
        "modules": sys.modules,
    }  # fmt: skip
    text = HEAD + before + STEP.format(body=body, returned=returned)
    exec(compile(text, "program", "exec"), scope)
    sys.modules["config_of_a_test"] = scope["config"]
    run = Captured(scope["step"]) if captured else scope["step"]
    found = []
    try:
        for call in range(9):
            if call == 6:
                exec(compile(change, "change", "exec"), scope)
            given = scope.get("given", (scope["x"],))
            try:
                result = run(*given, **scope["by_name"])
            except RuntimeError as error:
                result = str(error)
            told = [bits(result), type(result), [result is value for value in scope.values()]]
            if isinstance(result, tuple) and result:
                first, second = result
                told += [
                    first is second,
                    first.add_(1)._version,
                    second._version,
                    second._base is first,
                ]
            for leaf in (*scope["model"].parameters(), scope["w"], scope["u"]):
                told += [bits(leaf), None if leaf.grad is None else bits(leaf.grad)]
            found.append(told)
    finally:
        for each in undo:
            each()
        sys.modules.pop("config_of_a_test", None)
        vars(builtins).pop("RATE_OF_A_TEST", None)
    return found, run


def test_a_change_is_noticed_where_modes_may_take_over_what_is_asked() -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    with Mode():
        torch.ones(1)._version  # noqa: B018 -- functions have gates from here on
    body = "k = 1.0 + x._version"

    assert seen(body, captured=True)[0] == seen(body, captured=False)[0]


@pytest.mark.parametrize("part", range(3))
def test_a_change_that_no_name_shows_is_noticed(
    part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {}
    for body in list(READS)[part::3]:
        eager, printed = seen(body, captured=False)[0], capsys.readouterr().out
        replayed, run = seen(body, captured=True)
        if (replayed, capsys.readouterr().out) != (eager, printed):
            wrong[body] = run.report()

    assert wrong == {}


RETURNED = {
    "h": "", "(loss.detach(),) * 2": "", "(loss, loss.detach())": "", "(y.detach(), y.detach()[0])": "",
    "known": "returns a list or dict that it did not create", "more": "", "x": "",
    "(lambda z: (z, z[0]))(y.detach() * 1)": "returns a tensor and a view of it",
}  # fmt: skip


def test_what_is_returned_is_itself_once_and_counted_as_before() -> None:
    wrong = {}
    for returned, reason in RETURNED.items():
        eager, _ = seen("y = y + h + known[0]", captured=False, returned=returned)
        replayed, run = seen("y = y + h + known[0]", captured=True, returned=returned)
        stopped = str(run.stops[0]) if run.stops else ""
        if replayed != eager or (reason not in stopped if reason else bool(stopped)):
            wrong[returned] = run.report()

    assert wrong == {}


@pytest.mark.parametrize("is_told", [False, True])
def test_a_step_is_captured_again_when_its_optimizer_is_replaced(is_told: bool) -> None:
    """Also where a recording has just ended, and steps are told to whoever stands in for it."""
    quick.fused_operation.cache_clear()
    scope: dict[str, Any] = {"torch": torch, "__name__": "program"}
    exec(compile(HEAD + STEP.format(body="pass", returned="None"), "program", "exec"), scope)
    run = Captured(scope["step"])
    probe.leave(PausedProbe(MagicMock(), ended=True) if is_told else None)
    try:
        for call in range(12):
            if call == 5:
                scope["optimizer"] = torch.optim.Adam(scope["model"].parameters(), lr=0.1)
            run(scope["x"])
    finally:
        probe.leave(None)

    assert [plan.replays > 2 for plan in run.plans] == [True, True], run.report()
