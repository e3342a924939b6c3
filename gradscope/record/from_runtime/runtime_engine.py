"""gradscope's own runtime, as an engine that can be recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gradscope.record.from_runtime.hot.frees import FOLLOWS_NODES, follows_from
from gradscope.record.from_runtime.paused import is_watched
from gradscope.record.from_runtime.source import RuntimeSource
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.trace import schema

if TYPE_CHECKING:
    from gradscope.record.session import Session
    from gradscope.record.source import InScripts


class Runtime:
    """The runtime: everything it does is reported to its probe."""

    local = local
    machinery: tuple[str, ...] = ()  # part of gradscope
    contexts_name_steps = True

    @property
    def in_scripts(self) -> InScripts:
        from gradscope.record.from_runtime.script.staged import ON_RUNTIME

        return ON_RUNTIME

    def threads(self) -> Iterable[ThreadState]:
        return list(ThreadState.all)

    def is_watched(self) -> bool:
        return is_watched()

    def facts(self, level: str) -> Mapping[str, Any]:
        from gradscope import __version__

        return {
            "producer": "gradscope.runtime",
            "producer_version": __version__,
            "observed": [] if level == "graph" else sorted(schema.EVENTS),
            "inferred": [],
            "absent": [] if level in FOLLOWS_NODES else ["node.died"],
            **follows_from(level),
        }

    def watch(self, session: Session) -> RuntimeSource:
        return RuntimeSource(session)
