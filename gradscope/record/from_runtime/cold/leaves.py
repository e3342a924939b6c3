"""Where leaves were created from data: noted at creation, and written when first used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from gradscope.record.acts.notes import FRAMES
from gradscope.record.acts.source.source_lines import called_at
from gradscope.record.notes.sites import caller_of
from gradscope.trace.schema import CameInAct

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from gradscope.record.acts.notes import ActNotes


class _Made(NamedTuple):
    """A leaf that the program has created and that is not in the trace yet."""

    leaf: ref[Any]
    stack: int
    code: CodeType
    offset: int
    t: int
    step: int


class Leaves:
    """Records the creation of leaves, except at level `graph`, and which leaves get gradients."""

    def __init__(self) -> None:
        self.acts: ActNotes | None = None
        self._made: dict[int, _Made] = {}  # by id()
        self._gathering: dict[int, ref[Any]] = {}

    def came(self, tensor: Any) -> None:
        """Called when the program has created a leaf."""
        acts = self.acts
        if acts is None or not acts.on:
            return
        frame: FrameType | None = sys._getframe(1)
        sites, contexts = acts.session.sites, acts.session.contexts
        while frame is not None and sites.is_machinery(frame.f_code):
            frame = caller_of(frame)
        if (
            frame is None or contexts.threads.here().optimizers
        ):  # created by an optimizer for internal use
            return
        made, key = self._made, id(tensor)
        made[key] = _Made(
            ref(tensor, lambda _: made.pop(key, None)), sites.of_several(frame, FRAMES),
            frame.f_code, frame.f_lasti, contexts.now(), contexts.steps.id,
        )  # fmt: skip

    def met(self, tensor: Any) -> None:
        """Write the creation of this tensor, which is in the trace from now on."""
        found = self._made.pop(id(tensor), None) if self._made else None
        if found is not None and found.leaf() is tensor and self.acts is not None:
            self.acts.guarded(self._note, tensor, found)

    def _note(self, tensor: Any, made: _Made) -> None:
        assert self.acts is not None
        by, at = called_at(made.code, made.offset), (made.t, made.step)
        self.acts.note(CameInAct(by=by), None, [tensor], stack=made.stack, at=at)

    def gathers(self, leaf: Any) -> None:
        """Called when a gradient of this leaf will be accumulated."""
        known, key = self._gathering, id(leaf)
        if key not in known:
            known[key] = ref(leaf, lambda _: known.pop(key, None))

    def alive(self) -> list[Any]:
        """Leaves whose gradients were accumulated and that are alive."""
        found = [weak() for weak in list(self._gathering.values())]
        return [each for each in found if each is not None]
