"""The answer of `gradscope law eval`: modules in eval mode that were called twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradscope.analysis.likeness.laws.nondeterministic import known
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.readable import plural


@dataclass(frozen=True, slots=True)
class DiffersAt:
    """An operation of a forward, or a module, and what it returned."""

    op: str  # "": the module
    module: str  # "1 (Dropout)"
    training: bool  # of the module
    line: str  # "train.py:7: loss = …"
    results: tuple[str, ...]  # digests


@dataclass(frozen=True, slots=True)
class EvalCall:
    """A call of an outermost module in eval mode, of which a copy was called twice."""

    module: str  # its type
    line: str
    outputs: int = 0  # tensors and numbers that were compared
    differs: bool = False
    first: DiffersAt | None = None  # None, although they differ: not again in two further calls
    changed: Sequence[str] = ()  # buffers and attributes that the first call changed
    training: Sequence[str] = ()  # modules inside that are in training mode
    drew: Sequence[str] = ()  # generators from which the two calls drew: "Python", "NumPy"
    error: str = ""  # why it could not be compared

    @property
    def updated(self) -> list[str]:
        """What changes of modules that are in training mode."""
        paths = [f"{each.partition(' (')[0]}." for each in self.training if " (" in each]
        return [name for name in self.changed if name.startswith(tuple(paths))]

    @property
    def is_broken(self) -> bool:
        """Whether the outputs differ, or a module is trained."""
        return self.differs or bool(self.updated)


def eval_answer(calls: Sequence[EvalCall]) -> Answer:
    """The answer about the calls of a run."""
    found = next((call for call in calls if call.differs), None)
    found = found or next((call for call in calls if call.is_broken), None)
    return Answer(
        _title(calls, found),
        facts=tuple(_facts(found)) if found is not None else (),
        sections=filled(
            Topic("why", tuple(_why(found)) if found is not None else ()),
            Topic("compared", tuple(_compared(calls))),
        ),
        notes=(HOW,) if calls else (),
        data=tuple(calls),
    )


HOW = (
    "in this run, first forwards in eval mode run twice more, on copies of module and inputs "
    "without the program's hooks, and nothing is compiled; state outside of the module is not put "
    "back"
)


def _title(calls: Sequence[EvalCall], found: EvalCall | None) -> str:
    if not calls:
        return "nothing to compare: the program calls no module in eval mode"
    if found is None:
        compared = sum(not call.error for call in calls)
        same = f"the same inputs have the same outputs in eval mode, in {plural(compared, 'call')}"
        return same if compared else "nothing could be compared"
    where = f" called at {_place(found.line)}" if found.line else ""
    if found.differs:
        return f"{found.module} in eval mode, {where.strip()}, has other outputs in a second call"
    return f"{found.module} in eval mode, {where.strip()}, changes {', '.join(found.updated)}"


def _place(line: str) -> str:
    """The file and number of a line, without its text."""
    return ":".join(line.split(":")[:2])


def _facts(call: EvalCall) -> Iterator[tuple[str, str]]:
    if call.first is not None:
        what = f"{call.first.op} in {call.first.module}" if call.first.op else call.first.module
        yield "first other result", what
        yield "line", call.first.line
    if call.changed:
        yield "changed by a call", ", ".join(call.changed)


def _why(call: EvalCall) -> Iterator[str]:
    first = call.first
    if first is None and call.differs:
        yield "not found: two further calls, in which each operation was compared, are the same"
    elif first is not None and first.training:
        yield f"{first.module} is in training mode inside a module in eval mode: call its eval()"
    elif first is not None and "dropout" in first.op:
        yield "dropout is called as a function with training=True: pass training=self.training"
    elif first is not None and (said := known(first.op, "")):
        yield f"{first.op}: {said}"
    elif call.differs and call.drew:
        drew = " and ".join(call.drew)
        yield f"random numbers are drawn with {drew}: do so only if self.training"
    elif call.differs and call.changed:
        yield "the result depends on what a call changes: do so only if self.training"
    elif call.differs:
        yield "not known: the inputs, buffers and plain attributes are the same"
    if call.updated:
        yield f"in training mode inside a module in eval mode: {', '.join(call.training)}"


def _compared(calls: Sequence[EvalCall]) -> Iterator[str]:
    compared = [call for call in calls if not call.error]
    if compared:
        names = ", ".join(dict.fromkeys(call.module for call in compared))
        outputs = plural(sum(call.outputs for call in compared), "output")
        yield f"{plural(len(compared), 'call')} of {names}: {outputs}, to the last bit"
    for call in calls:
        if call.error:
            yield f"not compared: {call.module} called at {_place(call.line)}: {call.error}"
