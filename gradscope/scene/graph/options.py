"""What a person may choose about a picture of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradscope.analysis.graph.selection import Selection
from gradscope.scene.choices import ColorBy, GraphOf, GroupBy

MOST_BOXES = 60
"""In a picture of which nobody said how many."""


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Which part of the graph to draw, and how."""

    selection: Selection = field(default_factory=Selection)
    color_by: ColorBy = ColorBy.KIND
    group_by: GroupBy = GroupBy.MODULE
    merge_leaves: bool = False  # one box for a leaf, however many use it
    saved: bool = False  # draw what each node keeps for its backward
    tensors: bool = False  # write the shape and dtype of what each node takes
    expand: tuple[str, ...] = ()  # modules, lines or nodes around which nothing is folded
    fold: tuple[str, ...] = ()  # modules or lines that stay folded
    everything: bool = False  # fold nothing, leave out nothing
    limit: int | None = None  # boxes; what `expand` and the focus ask for stands besides
    graph: GraphOf | None = None  # None: backward; of a program without nodes, forward

    @property
    def most(self) -> int:
        return self.limit or MOST_BOXES
