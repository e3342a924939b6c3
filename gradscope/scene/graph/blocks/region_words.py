"""Compiled functions in words: what is inside of regions, why graphs broke and were recompiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.analysis.answers.compiled_facts import (
    BrokenAt,
    CompiledAgain,
    CompiledFacts,
    CompiledOp,
    RegionInside,
    compiled,
)
from gradscope.analysis.identity.sites import Site, in_brackets
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.readable import duration, plural
from gradscope.trace.schema import Phase
from gradscope.trace.trace import Trace

NOTHING = (
    "Nothing was compiled. torch.compile(model) compiles a model on PyTorch; on gradscope's own "
    "engine it captures steps (--captured)."
)
INFERRED = (
    "the inside of a region is what the compiler reported when it compiled; its operations were "
    "not observed when the region ran (inferred)"
)
PARTS = {Phase.FORWARD: "forward", Phase.BACKWARD: "backward"}
MOST_NAMES = 8


def compiled_regions(trace: Trace, _: str = "") -> Answer:
    """What was compiled, and what is inside of it."""
    facts = compiled(trace)
    if not facts:
        return Answer(NOTHING, data=facts)
    sections = filled(
        Topic("graph breaks", tuple(dict.fromkeys(map(break_in_words, facts.breaks)))),
        Topic("compiled again", tuple(map(again_in_words, facts.again))),
        Topic("not compiled", tuple(_failed(*each) for each in facts.failed)),
        Topic("regions", tuple(map(_region, facts.regions))),
        *(
            Topic(f"inside region {each.id}, {named(each)}", tuple(inside(each)))
            for each in facts.regions
        ),
    )
    return Answer(_title(facts), (), sections, (INFERRED,) if facts.regions else (), facts)


def _title(facts: CompiledFacts) -> str:
    parts = [plural(len(facts.regions), "region")]
    if facts.breaks:
        parts.append(plural(len({each.site for each in facts.breaks}), "graph break"))
    if facts.again:
        parts.append(plural(len(facts.again), "recompilation"))
    times = plural(facts.compilations, "compilation")
    return f"{times} in {duration(facts.ns)}: {', '.join(parts)}."


def named(region: RegionInside) -> str:
    """As in "forward (train.py:10)"."""
    return f"{region.function or 'a graph'}{in_brackets(region.site)}"


def break_in_words(broken: BrokenAt) -> str:
    """As in "train.py:13: print(x): cannot be traced; PyTorch advises: …"."""
    hint = f"; PyTorch advises: {broken.hint}" if broken.hint else ""
    return f"{_place(broken.site)}{broken.reason}{hint}"


def again_in_words(again: CompiledAgain) -> str:
    """As in "forward (train.py:10): tensor 'x' size mismatch at index 0. …"."""
    return f"{again.function}{in_brackets(again.site)}: {'; '.join(again.reasons)}"


def _failed(function: str, site: Site, error: str) -> str:
    return f"{function}{in_brackets(site)}: {error}"


def _place(site: Site) -> str:
    text = f" {site.text}" if site.text else ""
    return f"{site.place}{text}: " if site.place else ""


def _region(region: RegionInside) -> str:
    told = [
        f"{plural(len(region.part(phase)), 'operation')} in {name}"
        for phase, name in PARTS.items()
        if region.part(phase)
    ]
    if region.kernels:
        told.append(plural(len(region.kernels), "kernel"))
    if region.kept:
        told.append(f"keeps {_few([f'{each.name} {each.type}' for each in region.kept])}")
    if region.cached:
        told.append("from PyTorch's cache")
    told.append(plural(region.nodes, "node") if region.nodes else "no node in this trace")
    return f"{region.id}, {named(region)}: {', '.join(told)}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def inside(region: RegionInside) -> Iterator[str]:
    """For each line of the program, its operations in the region; and the kernels they became."""
    for phase, name in PARTS.items():
        lines: dict[Site, list[CompiledOp]] = {}
        for op in region.part(phase):
            lines.setdefault(op.site, []).append(op)
        for site, ops in lines.items():
            kernels = dict.fromkeys(op.kernel for op in ops if op.kernel)
            into = f" -> {', '.join(kernels)}" if kernels else ""
            yield f"{name}: {_place(site)}{', '.join(op.op for op in ops)}{into}"
