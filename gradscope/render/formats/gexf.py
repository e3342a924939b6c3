"""GEXF, the format of Gephi: the graph with all its nodes. See https://gexf.net."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from gradscope.render.formats import Drawn, Format
from gradscope.render.theme import Theme
from gradscope.scene.network import Fact, Network, types_of
from gradscope.scene.readable import plural

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2">\n'
    "<meta><creator>gradscope</creator></meta>"
)


def write(network: Network, theme: Theme | None) -> Drawn:  # noqa: ARG001  Gephi has its own colours
    """The graph as GEXF, without the optional date."""
    text = "\n".join(_lines(network)) + "\n"
    return Drawn(text.encode(), holds=plural(len(network.nodes), "node"))


FORMAT = Format("gexf", ".gexf", "all nodes, for Gephi", write, takes="network")


def _lines(network: Network) -> Iterator[str]:
    yield HEAD
    yield '<graph defaultedgetype="directed" mode="static">'
    for kind, facts in types_of(network):
        yield f'<attributes class="{kind}" mode="static">'
        for name, value in facts.items():
            type = "long" if isinstance(value, int) else "string"
            yield f'<attribute id="{name}" title="{name}" type="{type}"/>'
        yield "</attributes>"
    yield "<nodes>"
    for node in network.nodes:
        label = escape(node.leaf or node.title)
        yield f'<node id="{node.id}" label="{label}">{_values(node.known())}</node>'
    yield "</nodes>"
    yield "<edges>"
    for number, edge in enumerate(network.edges):
        ends = f'id="{number}" source="{edge.tail}" target="{edge.head}"'
        yield f"<edge {ends}>{_values(edge.known())}</edge>"
    yield "</edges>"
    yield "</graph>"
    yield "</gexf>"


def _values(facts: dict[str, Fact]) -> str:
    values = "".join(
        f'<attvalue for="{name}" value="{escape(value) if isinstance(value, str) else value}"/>'
        for name, value in facts.items()
    )
    return f"<attvalues>{values}</attvalues>"
