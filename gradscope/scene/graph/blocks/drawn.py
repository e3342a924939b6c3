"""All boxes of a picture of any graph, in the graph's order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from gradscope.analysis.lookups import Ids
from gradscope.scene.graph.blocks.outline import MadeBy, NodeBlock
from gradscope.scene.graph.blocks.titles import Titles, each_turn
from gradscope.scene.graph.boxes import BoxMaker, FoldedContents
from gradscope.scene.graph.picture import Box, BoxLine
from gradscope.scene.graph.placing import Placing, Use


def boxes_of(
    placing: Placing,
    around: Callable[[int, str], Iterable[Box]],
    folded: Callable[[NodeBlock, str], Box],
) -> Iterator[Box]:
    """The boxes of blocks, and those of nodes with their neighbours, each once."""
    done: set[str] = set()
    for part in placing.folding.boxes:
        group = placing.group_of(part)
        if isinstance(part, NodeBlock):
            yield folded(part, group)
            continue
        for box in around(int(placing.columns.id[part]), group):
            if box.id not in done:
                done.add(box.id)
                yield box


def folded_box(
    block: NodeBlock,
    group: str,
    placing: Placing,
    maker: BoxMaker,
    titles: Titles,
    spent: Ids,
    backwards: Callable[[int], Collection[int]],
) -> Box:
    """The box of a block. `backwards`: the backwards in which each node took part."""
    nodes = placing.nodes_in(block)
    turns = block.made in (MadeBy.LOOP, MadeBy.TURNS)
    loop = block.parent if block.made is MadeBy.TURNS else block
    inside = FoldedContents(
        nodes=nodes,
        leaves=placing.leaves_in(block),
        own_ns=int(spent[block.end] - spent[block.first]),
        backwards=sorted({each for node in nodes for each in backwards(node)}),
        each=each_turn(loop, maker.nouns.node) if turns and loop else "",
        lines=titles.facts(block),
    )
    return maker.folded(placing.name(block), titles.title(block), inside, group)


def use_lines(use: Use) -> list[BoxLine]:
    """Which use of a leaf a box shows, or the number of uses."""
    if use.number:
        return [BoxLine(f"use {use.number} of {use.total}")]
    return [BoxLine(f"used {use.total} times")] if use.total > 1 else []
