"""What a recording adds to an engine error: the lines that created, wrote, released and called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gradscope.record.from_runtime.error_lines.recent import Recent, writes_since
from gradscope.record.notes.local_names import local_name
from gradscope.record.notes.user_functions import name_of
from gradscope.runtime.core.autograd.engine.accumulate_grad import AccumulateGrad
from gradscope.runtime.core.errors.anomaly_lines import last_writer
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.state.thread import local
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gradscope.record.from_runtime.error_lines.recent import Maker
    from gradscope.record.notes.sites import Sites
    from gradscope.runtime.core.errors.declare import Case


class Answers:
    """Completes engine errors with what was recorded; `look_back` updates `recent`."""

    def __init__(
        self, base: int, sites: Sites, recent: Recent, look_back: Callable[[], None]
    ) -> None:
        self._base = base
        self._sites = sites
        self._recent = recent
        self._look_back = look_back

    def complete(self, case: Case, lines: list[str]) -> None:
        """Add what is known about the case, one sentence per fact."""
        self._look_back()
        lines.extend(self._origin(case))
        if case.writes is not None:
            lines.extend(self._writes(case))
        if case.freed and case.node is not None:
            lines.extend(self._release(case.node))
        if case.hook is not None:
            lines.extend(self._hook(case.hook))
        task = local.state.task
        if task is not None and task.record_nr > self._base:
            called = self._at(self._recent.called_at(task.record_nr))
            if called:
                lines.append(f"It was raised in the backward called{called}.")

    # -- origin -------------------------------------------------------------------------------

    def _origin(self, case: Case) -> Iterator[str]:
        if case.node is not None:
            made = self._made(case.node.record_nr)
            if made is not None and self._at(made.site):
                yield f"{type(case.node).__name__} was made{self._at(made.site)}."
        if case.tensor is not None:
            yield from self._tensor(case.tensor)

    def _tensor(self, tensor: Any) -> Iterator[str]:
        made = self._made(tensor.record_nr)
        if made is not None:
            off = "" if made.grad_enabled else ", with grad mode off"
            yield f"The tensor was made by {_name(made)}{self._at(made.site)}{off}."
            return
        name = local_name(tensor, sys._getframe(1))
        if name:
            yield f"The tensor is the leaf `{name}`."

    def _made(self, seen: int) -> Maker | None:
        return None if seen <= self._base else self._recent.maker(seen & ~1)

    # -- writes -------------------------------------------------------------------------------

    def _writes(self, case: Case) -> Iterator[str]:
        writes = writes_since(case.writes, self._base, case.since)
        for write in writes[:1] + writes[1:][-1:]:
            yield f"{write.op}{self._at(write.site)} wrote to it: version {write.version}."
        if len(writes) > 2:
            yield f"There were {len(writes) - 2} more writes in between."
        writer = last_writer(case.writes)
        if not writes and writer:
            yield f"{writer} was the last to write to it."

    # -- release ------------------------------------------------------------------------------

    def _release(self, node: Any) -> Iterator[str]:
        task = self._recent.released_by(node.record_nr & ~1)
        if task is None:
            return
        yield f"The backward called{self._at(self._recent.called_at(task))} released it."
        crossing = self._crossing(task, node)
        made = None if crossing is None else self._made(crossing.record_nr)
        if made is not None:
            name = type(crossing).__name__
            yield f"It was reached again through {name}, made after that{self._at(made.site)}."

    def _crossing(self, released_by: int, freed: Any) -> Any:
        """The newer node through which this backward reached a node released by an earlier one."""
        task = local.state.task
        if task is None:
            return None
        pending, met = list(task.graph_roots), set(task.graph_roots)
        while pending:
            node = pending.pop()
            if node.record_nr < released_by:
                continue
            for following, _ in node.next_functions:
                if following is None or isinstance(following, AccumulateGrad):
                    continue
                if following.record_nr < released_by and self._leads_to(following, freed):
                    return node
                if following not in met:
                    met.add(following)
                    pending.append(following)
        return None

    def _leads_to(self, start: Any, end: Any) -> bool:
        pending, met = [start], {start}
        while pending:
            node = pending.pop()
            if node is end:
                return True
            for following, _ in node.next_functions:
                if following is not None and following not in met:
                    met.add(following)
                    pending.append(following)
        return False

    # -- hook ---------------------------------------------------------------------------------

    def _hook(self, hook: Any) -> Iterator[str]:
        at = self._at(self._sites.of_function(hook))
        if at:
            yield f"The hook {name_of(hook)} is{at}."

    def _at(self, site: int) -> str:
        """` at train.py:4 (y.add_(1))`; "" if not known."""
        return "" if site == NONE else f" at {self._sites.in_words(site)}"


def _name(made: Maker) -> str:
    """The name of the operation, without its overload."""
    if isinstance(made.op, str):
        return made.op.partition(".")[0]
    return next((op.base_name for op in REGISTRY.values() if op.number == made.op), "a call")
