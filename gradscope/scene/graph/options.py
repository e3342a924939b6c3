"""The options of a picture of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradscope.analysis.graph.selection import Selection
from gradscope.scene.choices import ColorBy, GraphOf, GroupBy

MOST_BOXES = 60
"""Default number of boxes."""


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Which part of the graph to draw, and how."""

    selection: Selection = field(default_factory=Selection)
    color_by: ColorBy = ColorBy.KIND
    group_by: GroupBy = GroupBy.MODULE
    merge_leaves: bool = False  # one box for a leaf, however many nodes use it
    saved: bool = False  # draw the values each node saves for backward
    tensors: bool = False  # show the shape and dtype of the gradients each node receives
    expand: tuple[str, ...] = ()  # modules, lines or nodes around which nothing is folded
    fold: tuple[str, ...] = ()  # modules or lines that stay folded
    everything: bool = False  # fold nothing, leave out nothing
    limit: int | None = None  # of boxes; those of `expand` and the focus do not count
    graph: GraphOf | None = None  # None: backward, or forward for a program without nodes

    @property
    def most(self) -> int:
        return self.limit or MOST_BOXES
