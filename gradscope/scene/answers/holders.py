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
    "names are checked at the end of a few steps only: references held only by C++, and names that "
    "existed only in between, are not found"
)


def who_holds(trace: Trace, wanted: str) -> Answer:
    """What holds a parameter, a tensor, a node, "step 3", or a name that held graphs."""
    told = holders(trace, wanted)
    names = node_names(trace)
    names_told = () if told.kind is Subject.NAME else tuple(map(_name, told.names))
    sections = filled(
        Topic("names in the program that held graphs", names_told),
        Topic(_saved_title(told), tuple(map(_saver, told.savers))),
        Topic("a reference to a result of these nodes keeps it alive", tuple(_tops(told, names))),
    )
    level = not_at_level(trace, "engine", "what nodes saved, and which names held graphs")
    notes = (*level, *_ends(trace, told), *(() if level else (LOOKS,)))
    return Answer(_title(told, names), tuple(_facts(told)), sections, notes, told)


def _ends(trace: Trace, told: Holders) -> Iterator[str]:
    """What is not known about when storages and graphs were freed."""
    sees_nodes = trace.sees("node.died")
    least = trace.meta.get("follows_from")
    if trace.meta.get("producer") == "pytorch":
        if least is not None:
            yield (
                f"a freed storage of at least {byte_count(least)} is noticed when the next "
                "backward or step ends; a smaller one is noticed when its graph releases it"
            )
        else:
            what = "storages are" if sees_nodes else "storages and nodes are"
            yield f"not recorded here: when {what} freed, except by a backward"
        return
    if told.left and not sees_nodes:
        of = f" of at least {byte_count(least)}" if least else ""
        yield f"a graph freed without a backward is noticed only when its storages{of} are freed"


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
    it = "it" if told.kind is Subject.TENSOR else "the saved values"
    if told.left:
        some = "" if told.left == values else f"{count(told.left)} of "
        kept = byte_count(told.bytes)
        yield f"{some}{plural(values, 'saved value')} still held ({kept}), released by no backward"
        return
    backwards = sorted({number for each in told.savers for number in each.backwards})
    freed = sum(each.freed for each in told.savers)
    by = _numbered(backwards) if backwards else ""
    ends = [f"{by} released {it}"] if by else []
    ends += [f"{plural(freed, 'value')} freed unused, with the graph"] if freed else []
    yield " and ".join(ends)


def _of_names(told: Holders) -> Iterator[str]:
    for name in told.names[:1]:
        if name.all_steps:
            yield f"{_called(name)} held the graphs of all {name.of} steps, including this one"
        elif name.of:
            yield (
                f"{_called(name)} held graphs of {name.steps} of {name.of} steps, possibly this one"
            )
        else:
            yield f"{_called(name)} held a graph created in an evaluation"


def _facts(told: Holders) -> Iterator[tuple[str, str]]:
    if told.kind is Subject.TENSOR:
        shared = (
            f", shared with {plural(len(told.sharing), 'other tensor')}" if told.sharing else ""
        )
        yield "storage", f"{byte_count(told.bytes)}{shared}"
        if told.freed != NONE:
            yield "freed", "while the program ran"
        if told.nodes:
            yield "keeps alive", f"a graph of {plural(told.nodes, 'node')}{_there(told)}"
    elif told.kind is not Subject.NAME:
        kind = "reachable nodes" if told.kind is Subject.NODE else "nodes"
        yield kind, f"{count(told.nodes)}{_there(told)}"
        if told.recorded:
            yield "still saved", byte_count(told.bytes) if told.left else "nothing"


def _there(told: Holders) -> str:
    """Whether these nodes were still alive when the recording ended."""
    if told.there == NONE or not told.nodes:
        return ""
    if not told.there:
        return ", all freed by the end"
    return f", {count(told.there) if told.there < told.nodes else 'all'} still alive at the end"


def _name(name: KeptName) -> str:
    stored = ", ".join(site.place for site in name.stored[:FEW])
    text = f": {name.stored[0].text}" if name.stored and name.stored[0].text else ""
    where = f", stored at {stored}{text}" if stored else ""
    many = count(min(name.steps, name.of))
    steps = f"{many} of {plural(name.of, 'step')}" if name.of else "an evaluation"
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
        ends.append(f"released by {_numbered(list(saver.backwards))}")
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
        gave = f" (grad_fn of {tensors})" if tensors else ""
        yield f"{names.title(top.node)}{gave}{at(top.site)}{text}"
