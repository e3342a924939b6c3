"""A step that cannot be replayed as a whole is replayed in pieces around what stopped it."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.runtime.fast.capture.captured import Captured
from gradscope.runtime.fast.capture.pieces import cut
from tests.runtime.fast.capture.test_replayed_steps import bits, left

F = torch.nn.functional
counted = types.SimpleNamespace(steps=0)


def program() -> tuple[Any, Any, list[Any]]:
    """A model, an optimizer, and a list for what steps note."""
    torch.manual_seed(0)
    counted.steps = 0
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []


def logging(model: Any, optimizer: Any, noted: list[Any]) -> Callable[..., Any]:
    def step(nr: int, x: Any, weight: float = 1.0) -> Any:
        """Learn, and note the loss now and then."""
        optimizer.zero_grad()
        with torch.no_grad():
            x = x * 2
        loss = model(x).pow(2).mean() * weight
        loss.backward()
        optimizer.step()
        if nr % 2 == 0:
            noted.append((nr, loss.item()))
        return loss.detach()

    return step


def stopping(model: Any, optimizer: Any, noted: list[Any]) -> Callable[..., Any]:
    def norm() -> float:
        return sum(float(p.grad.norm()) for p in model.parameters())

    def step(nr: int, x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        big = norm() > 0.5
        if big:
            noted.append(nr)
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(p.grad, alpha=0.1)
        shown = loss.detach() * 2
        print(f"{float(shown):.3f}")
        return shown + 1

    return step


def counting(model: Any, optimizer: Any, noted: list[Any]) -> Callable[..., Any]:
    def step(nr: int, x: Any) -> Any:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        counted.steps += int(model[0].weight.detach().sum() > 0)
        optimizer.zero_grad()
        model(x * 2).sum().backward()
        optimizer.step()
        return counted.steps

    return step


def scheduled(model: Any, optimizer: Any, noted: list[Any]) -> Callable[..., Any]:
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)

    def step(nr: int, x: Any) -> float:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        noted.append(schedule.get_last_lr())
        return loss.item()

    return step


def enclosing(model: Any, optimizer: Any, noted: list[Any]) -> Callable[..., Any]:
    def step(nr: int, x: Any) -> Any:
        optimizer.zero_grad()

        def scaled(given: Any, by: float = 2.0) -> Any:
            return given * by

        parts = sorted([1.0, 3.0, 2.0], key=lambda each: -each)
        loss = scaled(model(x)).pow(2).mean() * parts[0]
        loss.backward()
        optimizer.step()
        noted.append((nr, loss.item()))
        shown = [each * 2 for each in parts]
        shown.sort(key=lambda each: each + parts[0])
        return loss.detach() * shown[0]

    return step


@pytest.mark.parametrize("make", [logging, stopping, counting, scheduled, enclosing])
def test_pieces_leave_the_same_bits(
    make: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    results, replayed = [], []
    for captured in (False, True):
        model, optimizer, noted = program()
        step = make(model, optimizer, noted)
        run = Captured(step) if captured else step
        given = [torch.linspace(-1, 1, 8).view(2, 4) * (1 + nr / 9) for nr in range(13)]
        found = [(bits(run(nr, x)), left(model)) for nr, x in enumerate(given)]
        results.append((found, list(noted), capsys.readouterr().out))
        if captured:
            replayed = list(replays(run))

    assert results[0] == results[1]
    assert max(replayed) >= 4


def replays(run: Any) -> Iterator[int]:
    """How often each piece was replayed, and each piece of a piece."""
    yield from (plan.replays for plan in run.plans)
    for part in run.pieces.parts if run.pieces else ():
        if isinstance(part.function, Captured):
            yield from replays(part.function)


def test_the_cut_is_told_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    step = logging(*program())
    first = step.__code__.co_firstlineno
    run = Captured(step)
    for nr in range(6):
        run(nr, torch.ones(2, 4))
    said = capsys.readouterr().err
    line = f"{__file__}:{first + 9}"

    assert (
        f"is replayed in pieces: a value is read (.item(), float(), or a branch) at {line}\n"
        in said
    )
    assert f"lines {first + 8} to {first + 9}: not replayed" in run.report()


def test_what_cannot_be_cut_is_left_whole() -> None:
    def early(x: Any) -> Any:
        if x is None:
            return 0
        print(x)
        return x + 1

    def generates(x: Any) -> Any:
        y = x + 1
        yield y

    def perhaps(x: Any) -> Any:
        if x.sum() > 0:
            y = x
        z = x * 2
        return y + z

    def one(x: Any) -> Any:
        return x

    for step in (early, generates, perhaps, one, functools.partial(one), len):
        first = getattr(step, "__code__", one.__code__).co_firstlineno
        for line in range(first + 1, first + 5):
            assert cut(step, line, lambda f: f) is None, step


def test_inner_functions_see_what_they_would_have_seen() -> None:
    def early(x: Any) -> Any:
        y, by = x + 1, [2]
        seen = [(lambda z, w=y: z + w + y) for _ in by]

        def more(z: Any) -> Any:
            y = z + by[0]
            return -y

        z = [each(1) for each in seen]
        return z, more(y), max([3, 1], key=lambda each: -each * y)

    def enclosed(x: Any) -> Any:
        y = x + 1
        later = [lambda: y]
        y = x + 2
        return later

    def again(x: Any) -> Any:
        def counts() -> Any:
            nonlocal y
            y += 1

        y = x
        counts()
        return y

    first = early.__code__.co_firstlineno
    for line in (1, 2, 4, 8, 9):
        pieces = cut(early, first + line, lambda f: f)
        assert pieces is not None
        assert pieces.run((5,), {}) == early(5)
    assert cut(enclosed, enclosed.__code__.co_firstlineno + 2, lambda f: f) is None
    assert cut(again, again.__code__.co_firstlineno + 5, lambda f: f) is None


def test_pieces_of_a_method_take_its_object() -> None:
    class Loop:
        scale = 3

        def step(self, x: Any, *, by: int = 2) -> Any:
            y = x * by
            z = y + self.scale
            return +z

    loop = Loop()
    first = Loop.step.__code__.co_firstlineno
    pieces = cut(loop.step, first + 2, lambda f: f)

    assert pieces is not None
    assert [(p.given, p.left, p.cut) for p in pieces.parts] == [
        (("by", "x"), ("y",), False),
        (("self", "y"), ("z",), True),
        (("z",), (), False),
    ]
    assert (pieces.run((4,), {}), pieces.run((4,), {"by": 5})) == (11, 23)


def test_a_hook_of_a_leaf_is_no_matter_where_no_backward_runs() -> None:
    model, optimizer, _ = program()
    model[0].weight.register_hook(lambda grad: grad * 2)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return torch.ones(())

    run = Captured(step)
    for nr in range(9):
        run(torch.linspace(-1, 1, 8).view(2, 4) * nr)
    assert run.pieces is not None
    last = run.pieces.parts[-1].function

    assert "a hook of a leaf" in run.report()
    assert last.recaptured == []
    assert last.plans[0].replays >= 4
