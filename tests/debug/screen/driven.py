"""The program as somebody drives it: keys in, what is seen out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("textual", reason="the screen is Textual's: pip install textual")

from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.strip import Strip

from gradscope.debug.screen.app import Debugger
from gradscope.debug.walk import Walk
from gradscope.trace.trace import Trace

Step = str | Callable[[Debugger], Any]
SMALL = (80, 24)
LARGE = (120, 40)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is on the screen, and where the walk is."""

    strips: tuple[Strip, ...]
    walk: Walk
    moment: int
    node: int  # that is looked at
    focused: str  # the id of what has the keys
    app: Debugger

    @property
    def text(self) -> str:
        return "".join(f"{strip.text.rstrip()}\n" for strip in self.strips)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def typed(text: str) -> Step:
    """A command, as if it were typed after a colon."""
    return f":{text}"


def driven(
    trace: Trace | Walk,
    *steps: Step,
    size: tuple[int, int] = SMALL,
    leaving: tuple[type[BaseException], ...] = (),
) -> Seen:
    """What is seen after these keys; a step of several characters after a colon is a command."""
    return seen_at(trace, steps, size=size, leaving=leaving)[-1]


def seen_at(
    trace: Trace | Walk,
    *sections: tuple[Step, ...],
    size: tuple[int, int] = SMALL,
    leaving: tuple[type[BaseException], ...] = (),
) -> list[Seen]:
    """What is seen after each of these, one after the other in one program."""
    walk = trace if isinstance(trace, Walk) else Walk(trace)
    return asyncio.run(_driven(Debugger(walk, leaving), sections, size))


async def _driven(
    app: Debugger, sections: tuple[tuple[Step, ...], ...], size: tuple[int, int]
) -> list[Seen]:
    found = []
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for steps in sections:
            for step in steps:
                await _do(app, pilot, step)
            for _ in range(2):  # a panel that got another width breaks its lines anew
                await pilot.pause()
                await _settled(app)
            focused = "" if app.focused is None else app.focused.id or ""
            strips = tuple(app.screen._compositor.render_strips())
            node, moment = app.board.way.node, app.walk.moment
            found.append(Seen(strips, app.walk, moment, node, focused, app))
    return found


async def _do(app: Debugger, pilot: Pilot[None], step: Step) -> None:
    if callable(step):
        step(app)
        await _settled(app)
    elif step[0] == ":" and len(step) > 1:
        if app.focused is not app._prompt:
            app.ask()
        app._prompt.put(step[1:])
        await _pressed(app, "enter")
        await pilot.pause()  # it is answered when the screen has been drawn
    else:
        await _pressed(app, step)


async def _pressed(app: Debugger, key: str) -> None:
    """As Pilot does it, without its waits of 20 ms."""
    name = _character_to_key(key) if len(key) == 1 and not key.isalnum() else key
    character = key if len(key) == 1 else {"space": " "}.get(key)
    assert app._driver is not None
    pressed = Key(name, character)
    pressed.set_sender(app)
    app._driver.send_message(pressed)
    await _settled(app)


async def _settled(app: Debugger) -> None:
    """Nothing waits to be handled any more."""
    quiet = 0
    while quiet < 5:
        await asyncio.sleep(0)
        pumps = [app, *app.screen.walk_children(with_self=True)]
        quiet = 0 if any(pump.message_queue_size for pump in pumps) else quiet + 1
