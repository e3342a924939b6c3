"""Writes the exception that ended a program as a row of its trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradscope.record.script.tracebacks import described
from gradscope.trace import schema

if TYPE_CHECKING:
    from gradscope.record.session import Session


def write_exception(session: Session, error: BaseException) -> None:
    """Write an exception and the lines of the program through which it propagated."""
    site = session.sites
    traceback = error.__traceback__
    stack = schema.NONE
    while traceback is not None:
        frame = traceback.tb_frame
        code = frame.f_code
        if not site.is_ours(code):
            line = traceback.tb_lineno or code.co_firstlineno
            place = site.position(code.co_filename, line, code.co_qualname, frame.f_globals)
            stack = site._link(place, stack)
        traceback = traceback.tb_next
    intern = session.writer.intern
    session.writer.block(schema.Finding, {
        "id": [next(session.contexts.spans.ids) + 1_000_000], "kind": [intern("exception")],
        "message": [intern(described(error))], "place": [0],
        "op": [schema.NONE], "node": [schema.NONE], "seq": [schema.NONE], "stack": [stack],
        "t": [session.contexts.now()],
    })  # fmt: skip
