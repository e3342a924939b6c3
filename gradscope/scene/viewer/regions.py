"""Compiled regions on the page: in words, and their operations as boxes and arrows."""

from __future__ import annotations

from gradscope.analysis.answers.compiled_facts import CompiledFacts, CompiledOp, compiled
from gradscope.scene.graph.blocks.region_words import break_in_words, inside
from gradscope.scene.graph.blocks.regions import region_title
from gradscope.scene.kinds import kind_of_call
from gradscope.scene.viewer.nodes import KINDS
from gradscope.scene.viewer.text_columns import Table, Texts, ints
from gradscope.trace.schema import NONE, Phase
from gradscope.trace.trace import Trace


def region_tables(trace: Trace, texts: Texts) -> dict[str, Table]:
    """What the compiler reported of each region: lines of text, parts, operations, what they read.

    A part is the forward or the backward of a region. An operation that reads an input of the
    region reads no operation (-1).
    """
    facts = compiled(trace)
    parts = [
        (region, phase)
        for region in facts.regions
        for phase in (Phase.FORWARD, Phase.BACKWARD)
        if region.part(phase)
    ]
    ops = [(row, op) for row, (region, phase) in enumerate(parts) for op in region.part(phase)]
    rows = {op.id: row for row, (_, op) in enumerate(ops)}
    reads = [(row, rows.get(each, NONE)) for row, (_, op) in enumerate(ops) for each in op.reads]
    return {
        "regions": _words(facts, texts),
        "region_parts": {
            "region": ints(region.id for region, _ in parts),
            "is_forward": ints(phase is Phase.FORWARD for _, phase in parts),
            "title": texts.column(region_title(*each) for each in parts),
        },
        "region_ops": {"part": ints(part for part, _ in ops), **_ops([op for _, op in ops], texts)},
        "region_reads": {
            "op": ints(op for op, _ in dict.fromkeys(reads)),
            "from": ints(source for _, source in dict.fromkeys(reads)),
        },
    }


def _ops(ops: list[CompiledOp], texts: Texts) -> Table:
    return {
        "op": texts.column(op.op for op in ops),
        "name": texts.column(op.name for op in ops),
        "type": texts.column(op.type for op in ops),
        "kind": ints(KINDS.index(kind_of_call(op.op)) for op in ops),
        "place": texts.column(op.site.place for op in ops),
        "code": texts.column(op.site.text for op in ops),
        "kernel": texts.column(op.kernel for op in ops),
        "kept": ints(op.kept for op in ops),
    }


def _words(facts: CompiledFacts, texts: Texts) -> Table:
    """What is inside of each compiled region, and why it was compiled, a line each."""
    lines = [
        (region.id, line)
        for region in facts.regions
        for line in (
            *inside(region),
            *(
                f"compiled again: {'; '.join(each.reasons)}"
                for each in facts.again
                if each.name == region.compilation
            ),
            *(
                f"graph break: {break_in_words(each)}"
                for each in facts.breaks
                if each.compilation == region.compilation
            ),
        )
    ]
    return {
        "region": ints(region for region, _ in lines),
        "text": texts.column(line for _, line in lines),
    }
