"""The commands of the debugger, one function each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gradscope.analysis.answers.meant import FINDING, node_meant
from gradscope.analysis.answers.order import Turns
from gradscope.analysis.identity.fingerprints import shortened
from gradscope.analysis.report import inspect
from gradscope.analysis.state.node_at import node_at
from gradscope.analysis.state.state import at
from gradscope.debug.help import to_stop_at, to_type
from gradscope.debug.walk import MoveResult, Walk
from gradscope.errors import UnknownNameError, UsageError
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.answers.grad_of import grad_of
from gradscope.scene.answers.node_now import hooks, now
from gradscope.scene.answers.order import order
from gradscope.scene.answers.state import state_answer, title
from gradscope.scene.answers.things import chosen_node, chosen_op, chosen_tensor
from gradscope.scene.answers.why_none import why_none
from gradscope.scene.moments import MomentWords
from gradscope.scene.readable import byte_count, count, plural
from gradscope.trace.schema import NONE, Frame, GraphTask, Node, Op, Saved, Stack, Value

Do = Callable[[Walk, str], Answer]
Go = Callable[[Walk, str], MoveResult]

AROUND = 6
"""Number of moments that are listed before and after the current one."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    name: str
    short: tuple[str, ...]
    takes: str
    says: str
    do: Do
    go: Go | None = None  # for a move: where it leads, without the answer


COMMANDS: dict[str, Command] = {}
"""Commands by each of their names."""


def command(name: str, *short: str, takes: str = "") -> Callable[[Do], Do]:
    """Declare a command; the first line of its docstring is its help text."""

    def declared(do: Do) -> Do:
        _add(Command(name, short, takes, _says(do), do))
        return do

    return declared


def move(name: str, *short: str, takes: str = "") -> Callable[[Go], Go]:
    """Declare a command that moves; it answers with the state there, and why it stopped."""

    def declared(go: Go) -> Go:
        def do(walk: Walk, rest: str) -> Answer:
            return _here(walk, go(walk, rest))

        _add(Command(name, short, takes, _says(go), do, go))
        return go

    return declared


def _add(made: Command) -> None:
    COMMANDS.update(dict.fromkeys((made.name, *made.short), made))


def _says(does: Do | Go) -> str:
    says = (does.__doc__ or "").partition("\n")[0].rstrip(".")
    return says[:1].lower() + says[1:]


def answer(walk: Walk, text: str) -> Answer:
    name, _, rest = text.strip().partition(" ")
    return meant(name).do(walk, rest.strip())


def meant(name: str) -> Command:
    """The command with this name or unambiguous prefix."""
    found = COMMANDS.get(name)
    if found is not None:
        return found
    begin = sorted({each.name for key, each in COMMANDS.items() if key.startswith(name)})
    if len(begin) == 1:
        return COMMANDS[begin[0]]
    known = ", ".join(begin or sorted({each.name for each in COMMANDS.values()}))
    what = "is ambiguous" if begin else "is no command"
    raise UnknownNameError(f"{name!r} {what}: {known}; help describes them")


def _number(text: str, otherwise: int = 1) -> int:
    if not text:
        return otherwise
    if not text.isdecimal() or len(text) > 12:
        raise UsageError(f"{text!r} is not a number")
    return int(text)


def held_by(arrival: MoveResult) -> str:
    """Why a move stopped, as in "breakpoint 1: nan"; "" if it was complete."""
    reasons = [
        f"breakpoint {stop.number}: {stop.text}" if stop.number else stop.text
        for stop in arrival.stops
    ]
    return "; ".join([*reasons, *([arrival.at_edge] if arrival.at_edge else [])])


def _here(walk: Walk, arrival: MoveResult | None = None) -> Answer:
    """The current state, and why the move stopped."""
    shown = state_answer(walk.state)
    held = "" if arrival is None else held_by(arrival)
    facts = (*((("stopped at", held),) if held else ()), *shown.facts)
    return Answer(shown.title, facts, shown.sections, shown.notes, shown.data)


# -- moves ----------------------------------------------------------------------------------------


@move("step", "s", takes="[N]")
def _step(walk: Walk, rest: str) -> MoveResult:
    """Go one moment forward, or N moments."""
    return walk.step(_number(rest))


@move("back", "b", takes="[N]")
def _back(walk: Walk, rest: str) -> MoveResult:
    """Go one moment back, or N moments."""
    return walk.step(-_number(rest))


@move("next", "n", takes="[N]")
def _next(walk: Walk, rest: str) -> MoveResult:
    """Go to the start of the next node, or the Nth next."""
    return walk.node(_number(rest))


@move("previous", "p", takes="[N]")
def _previous(walk: Walk, rest: str) -> MoveResult:
    """Go back to the start of the previous node, or the Nth previous."""
    return walk.node(-_number(rest))


@move("out", "o")
def _out(walk: Walk, _: str) -> MoveResult:
    """Go to the end of the running node, or else of the backward."""
    return walk.out(forward=True)


@move("into", "i")
def _into(walk: Walk, _: str) -> MoveResult:
    """Go back to the start of the running node, or else of the backward."""
    return walk.out(forward=False)


@move("continue", "c", takes="[WHAT]")
def _continue(walk: Walk, rest: str) -> MoveResult:
    """Go forward to the next breakpoint, or once to WHAT (see help break)."""
    return walk.run(forward=True, until=rest)


@move("reverse", "r", takes="[WHAT]")
def _reverse(walk: Walk, rest: str) -> MoveResult:
    """Go back to the previous breakpoint, or once to WHAT, as in reverse write weight."""
    return walk.run(forward=False, until=rest)


@move("goto", "g", takes="WHERE")
def _goto(walk: Walk, rest: str) -> MoveResult:
    """Go to a moment: a number, e57 for event 57, start, end, a finding's #id, or WHAT."""
    if not rest:
        raise UsageError("goto where? goto 120, goto e57, goto end, goto train.py:41")
    return walk.go(walk.place(rest))


@move("undo", "u")
def _undo(walk: Walk, _: str) -> MoveResult:
    """Go back to where the last move started."""
    return walk.back()


# -- breakpoints ----------------------------------------------------------------------------------


@command("break", takes="WHAT")
def _break(walk: Walk, rest: str) -> Answer:
    """Set a breakpoint at WHAT; help break lists the kinds."""
    if not rest:
        return _breaks(walk, rest)
    stop = walk.set(rest)
    many, before = len(stop.moments), int(np.searchsorted(stop.moments, walk.moment))
    said = f"breakpoint {stop.number}: {stop.text}: {plural(many, 'moment')}"
    return Answer(f"{said}, {count(before)} of them before the current one" if many else said)


@command("breaks")
def _breaks(walk: Walk, _: str) -> Answer:
    """List the breakpoints."""
    lines = tuple(
        f"{stop.number}: {stop.text}: {plural(len(stop.moments), 'moment')}"
        for stop in walk.stops.values()
    )
    return Answer(plural(len(lines), "breakpoint"), sections=filled(Topic("all", lines)))


@command("delete", "d", takes="N")
def _delete(walk: Walk, rest: str) -> Answer:
    """Delete breakpoint N."""
    return Answer(f"deleted: {walk.remove(_number(rest, 0)).text}")


# -- looks ----------------------------------------------------------------------------------------


@command("state", "where", "w")
def _state(walk: Walk, _: str) -> Answer:
    """Show the state of the engine and the program."""
    return _here(walk)


@command("list", "l", takes="[N]")
def _list(walk: Walk, rest: str) -> Answer:
    """List the moments around the current one."""
    many = _number(rest, AROUND)
    say = walk.trace.once(MomentWords)
    first, last = max(walk.moment - many, 0), min(walk.moment + many, walk.last)
    lines = []
    for moment in range(first, last + 1):
        row = at(walk.trace, moment).happened
        sign = ">" if moment == walk.moment else " "
        lines.append(f"{sign} {moment:,}  {say.said(row)}")
    return Answer(f"moments {first:,} to {last:,} of {walk.last + 1:,}",
                  sections=(Topic("", tuple(lines)),))  # fmt: skip


@command("source")
def _source(walk: Walk, _: str) -> Answer:
    """Show the source lines that led here, innermost first."""
    row, trace = walk.state.happened, walk.trace
    nodes, tasks = trace.table(Node), trace.table(GraphTask)
    sections = []
    for name, stack in (
        ("this moment", getattr(row, "stack", NONE)),
        ("creation of the node", _stack_of(nodes, getattr(row, "node", NONE))),
        ("call of this backward", _stack_of(tasks, getattr(row, "task", NONE))),
    ):
        frames = trace.frames(stack) if trace.table(Stack).has(stack) else ()
        sections.append(Topic(name, tuple(_frame(each) for each in frames)))
    return Answer(title(walk.state, trace.once(MomentWords)), sections=filled(*sections))


def _stack_of(table: object, id: int) -> int:
    has, row = table.has, table.row  # type: ignore[attr-defined]
    return int(row(id).stack) if has(id) else NONE


def _frame(frame: Frame) -> str:
    return f"{frame.file}:{frame.line} in {frame.function}: {frame.text}"


@command("values", "v")
def _values(walk: Walk, _: str) -> Answer:
    """Show statistics of the values recorded here."""
    row, values = walk.state.happened, walk.trace.table(Value)
    seq, say = getattr(row, "seq", NONE), walk.trace.once(MomentWords)
    if seq != NONE:
        chosen = np.flatnonzero(np.asarray(values["seq"]) == seq)
    else:
        chosen = np.flatnonzero(np.asarray(values["op"]) == getattr(row, "id", NONE))
        chosen = chosen if type(row).TABLE == "op" else chosen[:0]
    lines = tuple(
        ", ".join(
            f"{name} {text}"
            for name, text in say.cells.words(
                each, leave_out=("id", "seq", "t", "op", "task", "step")
            )
        )
        for each in values.take(chosen)
    )
    why = () if len(values) else ("not recorded: values; use --level values",)
    return Answer(f"{plural(len(lines), 'value')} recorded here",
                  sections=filled(Topic("", lines)), notes=why)  # fmt: skip


@command("node", takes="[NAME]")
def _node(walk: Walk, rest: str) -> Answer:
    """Show everything about a node: the current one, or by id or name."""
    return chosen_node(walk.trace, rest or str(_node_here(walk)))


@command("tensor", takes="NAME")
def _tensor(walk: Walk, rest: str) -> Answer:
    """Show everything about a tensor, by id or name."""
    return chosen_tensor(walk.trace, rest)


@command("op", takes="[NAME]")
def _op(walk: Walk, rest: str) -> Answer:
    """Show everything about a forward call: the current one, or by id or name."""
    here = walk.state.happened
    if isinstance(here, Op) and rest in ("", here.name, here.name.partition(".")[0]):
        rest = str(here.id)
    return chosen_op(walk.trace, rest)


@command("saved", takes="[NODE]")
def _saved(walk: Walk, rest: str) -> Answer:
    """Show the values that a node has saved and not yet released."""
    node = node_meant(walk.trace, rest) if rest else _node_here(walk)
    kept, say = walk.state.saved_by(node), walk.trace.once(MomentWords)
    lines = tuple(
        f"{each.slot}: {say.cells.tensor(each.tensor)}, {byte_count(each.bytes)}" for each in kept
    )
    ever = int((np.asarray(walk.trace.table(Saved)["node"]) == node).sum())
    all_ = f"{say.node(node)} holds {len(kept)} of {plural(ever, 'saved value')} now"
    return Answer(all_, sections=filled(Topic("", lines)))


@command("grads")
def _grads(walk: Walk, _: str) -> Answer:
    """Show the leaves that have a .grad now, the latest arrival first."""
    say, found = walk.trace.once(MomentWords), walk.state.gradients
    lines = tuple(
        f"{say.short(each.tensor)}: since moment {each.since:,}, {say.cells.backward(each.task)}"
        for each in found[::-1]
    )
    return Answer(f"{plural(len(found), 'leaf has', 'leaves have')} a .grad whose arrival was "
                  "recorded", sections=filled(Topic("", lines)))  # fmt: skip


@command("why", takes="[NODE or TENSOR]")
def _why(walk: Walk, rest: str) -> Answer:
    """Explain why a node ran when it did, or why a tensor's .grad is None."""
    try:
        said = order(walk.trace, rest or str(_node_here(walk)), _task_here(walk))
    except UnknownNameError:
        return why_none(walk.trace, rest)
    backward, turns = walk.state.backward, said.data
    if backward is None or not isinstance(turns, Turns):
        return said
    here = node_at(walk.trace, turns.node, backward.task.id, walk.moment)
    facts = [("now", now(here, walk.trace.once(MomentWords))), *said.facts]
    if here.hooks:
        facts.append(("hooks", hooks(here)))
    return replace(said, facts=tuple(facts))


@command("grad", takes="TENSOR")
def _grad(walk: Walk, rest: str) -> Answer:
    """Show the history of a tensor's gradient."""
    return grad_of(walk.trace, rest, f"why {rest}")


@command("findings", "f")
def _findings(walk: Walk, _: str) -> Answer:
    """List the findings of inspect, worst first; goto #id goes to one."""
    found = walk.trace.once(inspect).findings
    ids = shortened([each.id for each in found])
    lines = tuple(
        f"{FINDING}{ids[each.id]} {each.rule} {each.slug}: {each.message}" for each in found
    )
    return Answer(plural(len(found), "finding"), sections=filled(Topic("worst first", lines)))


def _task_here(walk: Walk) -> int:
    """The running backward, or the one of the current event."""
    backward = walk.state.backward
    return getattr(walk.state.happened, "task", NONE) if backward is None else backward.task.id


def _node_here(walk: Walk) -> int:
    node: int = getattr(walk.state.happened, "node", NONE)
    if node == NONE:
        raise UsageError("there is no current node here: name one, or use next to go to one")
    return node


# -- help -----------------------------------------------------------------------------------------


@command("help", "h", "?", takes="[COMMAND]")
def _help(_: Walk, rest: str) -> Answer:
    """Show this list, or one command; help break lists kinds of breakpoints."""
    if rest == "break":
        return to_stop_at()
    return to_type([meant(rest)] if rest else dict.fromkeys(COMMANDS.values()))
