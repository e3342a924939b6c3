"""What keeps a tensor or a graph in memory, in words."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.answers.holders import Holders, KeptName, Saver, Subject, holders
from gradscope.analysis.identity.names import NodeNames, node_names
from gradscope.analysis.identity.sites import at, in_brackets
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.answers.not_recorded import not_at_level
from gradscope.scene.readable import byte_count, count, plural
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

FEW = 3
LOOKS = (
    "names are looked through at the ends of a few steps: what only C++ holds, or a name that came "
    "and went between, is not seen"
)


def who_holds(trace: Trace, wanted: str) -> Answer:
    """Of a parameter, a tensor, a node, "step 3", or a name that held graphs."""
    told = holders(trace, wanted)
    names = node_names(trace)
    names_told = () if told.kind is Subject.NAME else tuple(map(_name, told.names))
    sections = filled(
        Topic("names of the program that held graphs", names_told),
        Topic(_saved_title(told), tuple(map(_saver, told.savers))),
        Topic("who holds what one of these gave holds it", tuple(_tops(told, names))),
    )
    level = not_at_level(trace, "engine", "what nodes saved, and which names held graphs")
    notes = (*level, *_ends(trace, told), *(() if level else (LOOKS,)))
    return Answer(_title(told, names), tuple(_facts(told)), sections, notes, told)


def _ends(trace: Trace, told: Holders) -> Iterator[str]:
    """What is not known of the ends of storages and graphs."""
    sees_nodes = trace.sees("node.died")
    least = trace.meta.get("follows_from")
    if trace.meta.get("producer") == "pytorch":
        if least is not None:
            yield (
                f"the end of a storage of {byte_count(least)} and more is seen at the next end of "
                "a backward or step; of a smaller one, when the graph lets go of it"
            )
        else:
            what = "ends of storages are" if sees_nodes else "ends of storages and nodes are"
            yield f"{what} not recorded here, but when a backward let go"
        return
    if told.left and not sees_nodes:
        of = f" of {byte_count(least)} and more" if least else ""
        yield f"a graph that ended without a backward is seen by the ends of its storages{of} only"


def _saved_title(told: Holders) -> str:
    return "nodes that saved it" if told.kind is Subject.TENSOR else "what its nodes saved"


def _title(told: Holders, names: NodeNames) -> str:
    title = names.title(told.id) if told.kind is Subject.NODE else told.title
    if told.kind is Subject.NAME:
        held = "; ".join(map(_name, told.names))
        return f"{held}."
    place = at(told.site) if told.kind is not Subject.STEP else ""
    parts = [*_owners(told), *_of_saved(told), *_of_names(told)]
    if not told.recorded:
        parts.append("what nodes saved was not recorded")
    if not parts:
        return f"{title}{place}: nothing that was recorded holds it."
    return f"{title}{place}: {'; '.join(parts)}."


def _owners(told: Holders) -> Iterator[str]:
    owners = [f"module {told.module}"] if told.module else []
    owners += [f"{type}{in_brackets(site)}" for type, site in told.optimizers]
    if owners:
        yield f"held by {' and by '.join(owners)}"


def _of_saved(told: Holders) -> Iterator[str]:
    if not told.savers:
        return
    values = sum(each.values for each in told.savers)
    it = "it" if told.kind is Subject.TENSOR else "what was saved"
    if told.left:
        some = "" if told.left == values else f"{count(told.left)} of "
        kept = byte_count(told.bytes)
        yield f"{some}{plural(values, 'saved value')} still held ({kept}), which no backward let go"
        return
    backwards = sorted({number for each in told.savers for number in each.backwards})
    freed = sum(each.freed for each in told.savers)
    by = _numbered(backwards) if backwards else ""
    ends = [f"{by} let go of {it}"] if by else []
    ends += [f"{plural(freed, 'value')} ended unused, with the graph"] if freed else []
    yield " and ".join(ends)


def _of_names(told: Holders) -> Iterator[str]:
    for name in told.names[:1]:
        if name.all_steps:
            yield f"{_called(name)} held the graphs of all {name.steps} steps, and so this one"
        elif name.of:
            yield f"{_called(name)} held graphs of {name.steps} of {name.of} steps, may be this one"
        else:
            yield f"{_called(name)} held a graph that was made in an evaluation"


def _facts(told: Holders) -> Iterator[tuple[str, str]]:
    if told.kind is Subject.TENSOR:
        shared = (
            f", shared with {plural(len(told.sharing), 'other tensor')}" if told.sharing else ""
        )
        yield "storage", f"{byte_count(told.bytes)}{shared}"
        if told.freed != NONE:
            yield "ended", "it was freed while the program ran"
        if told.nodes:
            yield "holds itself", f"a graph of {plural(told.nodes, 'node')}{_there(told)}"
    elif told.kind is not Subject.NAME:
        kind = "nodes behind it" if told.kind is Subject.NODE else "nodes"
        yield kind, f"{count(told.nodes)}{_there(told)}"
        if told.recorded:
            yield "still saved", byte_count(told.bytes) if told.left else "nothing"


def _there(told: Holders) -> str:
    """Whether they outlived the recording."""
    if told.there == NONE or not told.nodes:
        return ""
    if not told.there:
        return ", gone at the end"
    return f", {count(told.there) if told.there < told.nodes else 'all'} there at the end"


def _name(name: KeptName) -> str:
    stored = ", ".join(site.place for site in name.stored[:FEW])
    text = f": {name.stored[0].text}" if name.stored and name.stored[0].text else ""
    where = f", stored at {stored}{text}" if stored else ""
    steps = f"{count(name.steps)} of {plural(name.of, 'step')}" if name.of else "an evaluation"
    return f"{_called(name)}: {plural(name.tensors, 'tensor')} with graphs of {steps}{where}"


def _called(name: KeptName) -> str:
    shown = f"`.{name.name}`" if name.attribute else f"`{name.name}`"
    return f"the {name.container} {shown}" if name.container else shown


def _saver(saver: Saver) -> str:
    times = f" ×{count(saver.values)}" if saver.values > 1 else ""
    ends = []
    if saver.left:
        which = f"{count(saver.left)} of them" if saver.left < saver.values else ""
        ends.append(f"{which} still held, {byte_count(saver.bytes)}".strip())
    if saver.backwards:
        ends.append(f"let go by {_numbered(list(saver.backwards))}")
    if saver.freed:
        ends.append(f"{count(saver.freed)} freed with the graph")
    return (
        f"{saver.name}{times}{in_brackets(saver.site)}, as {saver.slot or '?'}: {'; '.join(ends)}"
    )


def _numbered(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"backward {numbers[0]}"
    if len(numbers) > FEW and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"backwards {numbers[0]} to {numbers[-1]}"
    shown = ", ".join(map(str, numbers[:FEW])) + ", …" * (len(numbers) > FEW)
    return f"backwards {shown}"


def _tops(told: Holders, names: NodeNames) -> Iterator[str]:
    for top in told.tops:
        tensors = ", ".join(f"tensor {tensor}" for tensor in top.tensors[:FEW])
        text = f": {top.site.text}" if top.site.text else ""
        gave = f" gave {tensors}" if tensors else ""
        yield f"{names.title(top.node)}{gave}{at(top.site)}{text}"
