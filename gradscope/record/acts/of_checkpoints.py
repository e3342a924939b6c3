"""Acts of checkpoints: what their forward draws at random, and a recompute that is another forward.

# Note [Comparing a recompute with its forward]
A recompute must call what the forward has called, on the same weights. The engine compares only the
number, shape and dtype of what is saved, so another branch with the same shapes gives a wrong
gradient and no error. We pass a function to `checkpoint` that calls the program's and remembers
which calls created nodes; the second time they are compared. A recompute may stop earlier, as soon
as everything that is needed has been computed. Under `no_grad` (a reentrant forward) no call
creates a node, so only the weights are compared.

Conversions of dtype and `detach` are left out: autocast converts a weight once for all calls that
follow, and a checkpoint detaches what it saves.
"""

from __future__ import annotations

import dis
import random
from contextlib import AbstractContextManager, suppress
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from gradscope.errors import leave_no_frame
from gradscope.record.acts.notes import FRAMES
from gradscope.record.acts.stand_ins import Arguments, StandIn
from gradscope.trace.schema import NONE, CheckpointAct, RecomputeAct
from gradscope.watch.in_place.by_identity import attributes, parameters_in
from gradscope.watch.in_place.compilers import uncompiled
from gradscope.watch.in_place.standing_in import HERE, passed_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from gradscope.record.acts.notes import ActNotes
    from gradscope.watch.called.made_calls import MadeCalls

NOT_COMPARED = frozenset(("", "detach", "to", "_to_copy"))
ATTRIBUTES = frozenset(("LOAD_ATTR", "LOAD_METHOD"))


class CheckpointActs:
    """Watches `checkpoint`."""

    def __init__(self, torch: Any, acts: ActNotes) -> None:
        self._torch = torch
        self._acts = acts
        self._told: set[tuple[int, bool]] = set()
        uncompiled(CheckpointedPart.run)

    def stand_ins(self) -> Iterator[StandIn]:
        """The functions to replace."""
        home = getattr(self._torch.utils, "checkpoint", None)  # old versions import it on demand
        if home is not None:
            yield StandIn(home, "checkpoint", self._tell, look=self._begins, gives=_watched)

    def _begins(self, given: tuple[Any, ...], more: dict[str, Any]) -> CheckpointedPart | None:
        function = given[0] if given else more.get("function")
        return None if function is None else CheckpointedPart(self, function, self._states())

    def _tell(
        self, acts: ActNotes, frame: FrameType, told: Any, _: tuple[Any, ...], more: dict[str, Any]
    ) -> None:
        part: CheckpointedPart | None = told[0]
        if part is None:
            return
        before, after = part.before, self._states()
        act = CheckpointAct(
            reentrant=more.get("use_reentrant") is not False,
            keeps_random=bool(more.get("preserve_rng_state", True)),
            random=NONE if acts.generator is None else crc32(before["torch"]),
            drew=tuple(whose for whose, state in before.items() if state != after[whose]),
        )
        part.before = {}
        part.stack = acts.session.sites.of_several(frame, FRAMES)
        part.act = acts.note(act, None, stack=part.stack)

    def _states(self) -> dict[str, Any]:
        """The states of random generators, by their owner."""
        own = self._torch.default_generator.get_state()  # its memory is there as long as it is
        keys, place = np.random.get_state()[1:3]  # type: ignore[index]  # noqa: NPY002
        return {
            "torch": bytes(self._acts.look.memory(own) or b""),
            "random": random.getstate(),
            "numpy": (keys.tobytes(), place),
        }

    # -- a run of the function ----------------------------------------------------------------

    def begin(self) -> int | None:
        """Called before the function runs. Returns what to pass to `made_since`; None: paused."""
        acts = self._acts
        if not acts.on:
            return None
        calls = acts.look.calls if self._torch.is_grad_enabled() else None
        return NONE if calls is None else calls.count()

    def made_since(self, count: int) -> MadeCalls | None:
        """The calls that created nodes, if they are observed."""
        calls = self._acts.look.calls
        return None if calls is None or count == NONE else calls.made_since(count)

    def guarded(self, what: Callable[..., Any], *given: Any) -> Any:
        """Call a function of ours."""
        return self._acts.looked(what, *given)

    def differs(self, part: CheckpointedPart, act: RecomputeAct, written: list[Any]) -> None:
        """Record how a recompute differs, the first time per line of the program."""
        kind = part.stack, bool(written)
        if kind not in self._told:
            self._told.add(kind)
            self._acts.put(act, part.stack, part.act, self._acts.listed(written))

    def unseen(self) -> AbstractContextManager[object]:
        """A context in which modes of the program do not see our reads of tensors."""
        return self._acts.look.unseen()

    @property
    def start(self) -> int:
        """When the recording began."""
        return self._acts.session.start


class CheckpointedPart:
    """One call of `checkpoint`: its function, and what that called the first time."""

    def __init__(self, acts: CheckpointActs, function: Any, before: dict[str, Any]) -> None:
        self._acts = acts
        self._function = function
        self.before = before
        self.stack = self.act = NONE
        self._is_done = False
        self._calls: MadeCalls | None = None
        self._weights: list[tuple[Any, int]] = []

    @passed_over
    def run(self, *given: Any, **more: Any) -> Any:
        """Call the function, the first time or for a recompute."""
        guarded, over = self._acts.guarded, False
        count = None if HERE.ours else guarded(self._begin)
        try:
            result = self._function(*given, **more)
            over = True
        except BaseException as error:
            leave_no_frame(error)
            raise
        finally:
            if count is not None:
                guarded(self._ended, count, over)
        return result

    def _begin(self) -> int | None:
        count = self._acts.begin()
        if count is not None and self._is_done:
            self._compare_weights()
        return count

    def _ended(self, count: int, over: bool) -> None:
        calls = self._acts.made_since(count)
        if self._is_done:
            self._compare_calls(calls, over)
        elif over:
            self._is_done, self._calls = True, calls
            with self._acts.unseen():
                self._weights = [(each, each._version) for each in weights_of(self._function)]

    def _compare_weights(self) -> None:
        with self._acts.unseen():
            written = [each for each, version in self._weights if each._version != version]
        if written:
            self._acts.differs(self, RecomputeAct(), written)

    def _compare_calls(self, calls: MadeCalls | None, over: bool) -> None:
        first = self._calls
        if first is None or calls is None or not len(first.words):
            return
        many = len(calls.words)
        if np.array_equal(first.words[:many], calls.words) and (
            not over or many == len(first.words)
        ):
            return
        found = _first_difference(_compared(first), _compared(calls), over)
        if found is None:
            return
        name, begin, other = found
        begin = begin - self._acts.start if begin else 0
        self._acts.differs(self, RecomputeAct(forward=name, recompute=other, begin=begin), [])


def _watched(
    part: CheckpointedPart | None, given: tuple[Any, ...], more: dict[str, Any]
) -> Arguments:
    """The arguments with our function instead of the program's, which may be passed by name."""
    if part is None:
        return given, more
    return ((part.run, *given[1:]), more) if given else (given, {**more, "function": part.run})


def _compared(calls: MadeCalls) -> list[tuple[str, int]]:
    pairs = zip(calls.names(), calls.begin.tolist(), strict=True)
    return [pair for pair in pairs if pair[0] not in NOT_COMPARED]


def _first_difference(
    forward: list[tuple[str, int]], again: list[tuple[str, int]], over: bool
) -> tuple[str, int, str] | None:
    """The call of the forward, when it began, and that of the recompute; "", 0: none."""
    for (name, begin), (other, _) in zip(forward, again, strict=False):
        if name != other:
            return name, begin, other
    if len(again) > len(forward):
        return "", 0, again[len(forward)][0]
    if over and len(again) < len(forward):
        return *forward[len(again)], ""
    return None


def weights_of(function: Any) -> list[Any]:
    """The parameters of the module that a function calls, as far as it can be found."""
    function = function.func if isinstance(function, partial) else function
    bound = getattr(function, "__name__", "") == "forward"
    owner = getattr(function, "__self__", None) if bound else None
    candidates = [function, owner, *_variables(function)]
    module = next((each for each in candidates if "_parameters" in attributes(each)), None)
    return [] if module is None else list(parameters_in(module).values())


def _variables(function: Any) -> Iterator[Any]:
    """The values of the variables from outside that a function uses, other than for an attribute.

    Of an object with several modules it is not known which one is called.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return
    cells = dict(zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False))
    for opname, name in _loads(code):
        if opname == "LOAD_GLOBAL":
            yield function.__globals__.get(name)
        elif name in cells:
            with suppress(ValueError):  # it is empty
                yield cells[name].cell_contents


@lru_cache(256)
def _loads(code: CodeType) -> tuple[tuple[str, str], ...]:
    """The instructions that load such variables, and their names."""
    return tuple(
        (one.opname, one.argval)
        for one, following in pairwise(dis.get_instructions(code))
        if one.opname in ("LOAD_DEREF", "LOAD_GLOBAL") and following.opname not in ATTRIBUTES
    )
