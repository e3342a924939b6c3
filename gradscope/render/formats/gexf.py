"""GEXF, Gephi's own format: the graph with all its nodes."""

from __future__ import annotations

from gradscope.render.formats import Drawn, Format
from gradscope.render.theme import Theme
from gradscope.scene.network import Network, as_networkx
from gradscope.scene.readable import plural


def write(network: Network, theme: Theme | None) -> Drawn:  # noqa: ARG001  Gephi has its own colours
    """The graph as GEXF, in networkx's words, without the day on which it was written."""
    from networkx.readwrite.gexf import GEXFWriter  # noqa: PLC0415  takes longer than the rest of a command

    graph = as_networkx(network)
    for node in network.nodes:
        graph.nodes[node.id]["label"] = node.leaf or node.title
    writer = GEXFWriter(encoding="utf-8", prettyprint=False, version="1.2draft")
    writer.add_graph(graph)
    for meta in writer.xml.iter():
        if meta.tag.endswith("meta"):
            meta.attrib.pop("lastmodifieddate", None)
    text = f"<?xml version='1.0' encoding='utf-8'?>\n{writer}\n"
    return Drawn(text.encode(), holds=plural(len(network.nodes), "node"))


FORMAT = Format("gexf", ".gexf", "all nodes, for Gephi", write, takes="network")
