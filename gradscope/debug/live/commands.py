"""The commands that need the running program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradscope.debug.commands import command
from gradscope.debug.live import console
from gradscope.debug.live.holds import LEAF, short
from gradscope.debug.live.trial import trial
from gradscope.debug.live.walk import BY_HAND, GoesOn, LiveWalk
from gradscope.errors import UsageError
from gradscope.record.script.signals import Stopped
from gradscope.scene.answers.answer import Answer, Topic, filled

if TYPE_CHECKING:
    from gradscope.debug.walk import Walk


def _live(walk: Walk) -> LiveWalk:
    if not isinstance(walk, LiveWalk):
        raise UsageError("this is a finished trace; the command needs the running program")
    return walk


@command("py", "!", takes="[CODE]")
def _py(walk: Walk, rest: str) -> Answer:
    """Run Python where the program stopped, with gs.node, gs.grads, gs.saved, gs.queue."""
    live = _live(walk)
    if not rest:
        if not live.live.front.by_hand:
            raise UsageError("py needs code, as in: py gs.grads")
        with live.live.places.aside():
            console.talk(live.scope)
        return Answer("back in the debugger")
    lines = live.shown(rest).splitlines() or ["done"]
    return Answer(lines[0], sections=filled(Topic("", tuple(lines[1:]))))


@command("replace", takes="NR CODE")
def _replace(walk: Walk, rest: str) -> Answer:
    """Replace gradient NR that the node receives, or returned, by the value of CODE."""
    live = _live(walk)
    return _kept(live, _replacement(live, rest, "replace"))


@command("try", takes="NR CODE")
def _try(walk: Walk, rest: str) -> Answer:
    """Show how such a replacement would change the gradients of leaves, without effect."""
    live = _live(walk)
    return trial(live, _replacement(live, rest, "try"))


def _replacement(live: LiveWalk, rest: str, name: str) -> dict[int, Any]:
    number, _, text = rest.partition(" ")
    grads = _grads(live)
    if not number.isdecimal() or not text:
        raise UsageError(f"{name} needs a number and code, as in: {name} 0 gs.grads[0] * 2")
    if int(number) >= len(grads):
        raise UsageError(f"there is no gradient {number}: the node has {len(grads)}")
    with live.live.places.aside():
        value = _value(text, live.scope)
    if value is not None and not isinstance(value, live.live.places.torch.Tensor):
        raise UsageError(f"a gradient is a tensor or None, not {type(value).__name__}")
    grad = grads[int(number)]
    if value is not None and grad is not None and (value.shape, value.dtype) != (
        grad.shape, grad.dtype,
    ):  # fmt: skip
        raise UsageError(
            f"gradient {number} has shape {tuple(grad.shape)} and {grad.dtype}, not "
            f"{tuple(value.shape)} and {value.dtype}"
        )
    return {int(number): value}


@command("skip")
def _skip(walk: Walk, _: str) -> Answer:
    """Replace the gradients that the node receives, or returned, by zeros."""
    live = _live(walk)
    grads = _grads(live)
    places = live.live.places
    with places.aside():
        zeros = {n: places.torch.zeros_like(g) for n, g in enumerate(grads) if g is not None}
    _kept(live, zeros)
    numbers = ", ".join(map(str, zeros))
    many = "gradients" if len(zeros) > 1 else "gradient"
    becomes = "become" if len(zeros) > 1 else "becomes"
    return Answer(f"{many} {numbers} {becomes} zeros when the program goes on")


@command("detach")
def _detach(walk: Walk, _: str) -> Answer:
    """Let the program go on without further stops."""
    _live(walk).live.detached = True
    raise GoesOn


@command("stop")
def _stop(walk: Walk, _: str) -> Answer:
    """End the program, as sys.exit(4) would; the trace is kept."""
    _live(walk)
    raise Stopped(BY_HAND)


def _grads(live: LiveWalk) -> tuple[Any, ...]:
    place = live.place_now
    if place.kind == "begins":
        return place.given
    if place.kind == "ran" and short(place.name) != LEAF:
        return place.made
    raise UsageError("the program is not before or after a node: use next to go to one")


def _value(text: str, scope: dict[str, Any]) -> Any:
    try:
        return eval(text, scope)  # noqa: S307  what the user types is run
    except Exception as error:  # noqa: BLE001  whatever it is, it is the user's to see
        raise UsageError(f"{type(error).__name__}: {error}") from None


def _kept(live: LiveWalk, values: dict[int, Any]) -> Answer:
    live.live.replaced |= values
    said = ", ".join(map(str, sorted(live.live.replaced)))
    return Answer(f"gradients replaced when the program goes on: {said}")
