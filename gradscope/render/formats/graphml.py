"""GraphML: the graph with all its nodes, for Gephi, yEd, Cytoscape, igraph."""

from __future__ import annotations

from gradscope.render.formats import Drawn, Format
from gradscope.render.theme import Theme
from gradscope.scene.network import Network, as_networkx
from gradscope.scene.readable import plural


def write(network: Network, theme: Theme | None) -> Drawn:  # noqa: ARG001  GraphML has no colours
    """The graph as GraphML, in networkx's words."""
    from networkx.readwrite.graphml import GraphMLWriter  # noqa: PLC0415  takes longer than the rest of a command

    writer = GraphMLWriter(graph=as_networkx(network), prettyprint=False)
    text = f"<?xml version='1.0' encoding='utf-8'?>\n{writer}\n"
    return Drawn(text.encode(), holds=plural(len(network.nodes), "node"))


FORMAT = Format(
    "graphml", ".graphml", "all nodes, for Gephi, yEd and Cytoscape", write, takes="network"
)
