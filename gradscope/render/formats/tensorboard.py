"""TensorBoard's graph: an event file with a GraphDef, whose scopes are the program's modules."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gradscope.analysis.program.modules import DEEPEST
from gradscope.render.encoding.protobuf import double, fields, integer, message, text
from gradscope.render.encoding.tfrecord import record
from gradscope.render.formats import Drawn, Format
from gradscope.render.theme import Theme
from gradscope.scene.network import Network, NetworkEdge, NetworkNode
from gradscope.scene.readable import plural

FILE_VERSION = "brain.Event:2"
NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.\-]+")
LONGEST_NAME = 100
SIZES = re.compile(r"\[(\d+(?:, \d+)*)\]")


def write(network: Network, theme: Theme | None) -> Drawn:  # noqa: ARG001  it has its own colours
    """The graph as an event file: the version record, then the graph."""
    # The time of the recording, so that the same trace gives the same bytes.
    wall = double(1, network.begin / 1e9)
    graph = fields(message(1, node) for node in _nodes(network)) + message(4, integer(1, 22))
    content = record(wall + text(3, FILE_VERSION)) + record(wall + message(4, graph))
    return Drawn(content, holds=plural(len(network.nodes), "node"))


FORMAT = Format(
    "tensorboard",
    ".tfevents",
    "all nodes by module, for tensorboard --logdir",
    write,
    takes="network",
    endings=(".tfevents",),
)


def _nodes(network: Network) -> Iterator[bytes]:
    """Each as a NodeDef: name, op, inputs, device, attributes."""
    names = _names(network)
    into: dict[int, list[NetworkEdge]] = defaultdict(list)
    shapes: dict[int, dict[int, str]] = defaultdict(dict)
    for edge in network.edges:
        into[edge.head].append(edge)
        shapes[edge.tail][edge.output] = edge.shape
    for node in network.nodes:
        arriving = sorted(into[node.id], key=lambda edge: (edge.input, edge.tail, edge.output))
        yield fields(
            [
                text(1, names[node.id]),
                text(2, _plain(node.name)),
                *(text(3, _input(names[edge.tail], edge.output)) for edge in arriving),
                *([text(4, node.device)] if node.device else []),
                *_attributes(node, shapes[node.id]),
            ]
        )


def _input(name: str, output: int) -> str:
    return f"{name}:{output}" if output > 0 else name


def _plain(name: str) -> str:
    """A name in the characters that TensorFlow allows."""
    return NOT_PLAIN.sub("_", name)[:LONGEST_NAME].lstrip("._-") or "_"


def _names(network: Network) -> dict[int, str]:
    """A name for each node, after its modules: "layer1/0/conv/MulBackward0_2"."""
    found: dict[int, str] = {}
    scopes = {
        module: [_plain(part) for part in module.split(".")[:DEEPEST]]
        for module in {node.module for node in network.nodes}
        if module
    }
    # A name that is also a scope would be ambiguous.
    taken = {
        "/".join(scope[:length]) for scope in scopes.values() for length in range(len(scope) + 1)
    }
    for node in network.nodes:
        module = node.module or node.leaf.rpartition(".")[0]  # for a leaf, its module
        title = node.leaf.removeprefix(f"{module}.") or node.title
        scope = scopes.get(module, ())
        name = "/".join(
            [*scope, _plain((title if scope else node.leaf or title).replace("#", "_"))]
        )
        if name in taken:
            name = f"{name}_{node.id}"
        while name in taken:
            name += "_"
        taken.add(name)
        found[node.id] = name
    return found


def _attributes(node: NetworkNode, shapes: dict[int, str]) -> Iterator[bytes]:
    """The facts about a node; and the size of its gradients under the name TensorFlow uses."""
    for name, value in sorted(node.known().items()):
        if name not in {"name", "device"}:
            held = integer(3, value) if isinstance(value, int) else text(2, value)
            yield _attribute(name, held)
    if any(shapes.values()):
        outputs = [shapes.get(output, "") for output in range(min(max(shapes), 999) + 1)]
        yield _attribute(
            "_output_shapes", message(1, fields(message(7, _shape(each)) for each in outputs))
        )


def _attribute(name: str, value: bytes) -> bytes:
    return message(5, text(1, name) + message(2, value))


def _shape(shape: str) -> bytes:
    """A TensorShapeProto of "[2, 3] float32", "scalar float32", or an unknown shape."""
    sizes = SIZES.match(shape)
    if not sizes:
        return b"" if shape.startswith("scalar") else integer(3, 1)
    numbers = [int(size) for size in sizes[1].split(",")]
    return fields(message(2, integer(1, size)) for size in numbers)
