"""Reads files as others do, and prints what is in them: `python readers.py perfetto FILE…`."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any


def perfetto(file: str) -> dict[str, Any]:
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    def unknown(message: Any) -> int:
        found = len(UnknownFieldSet(message))
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                found += sum(map(unknown, value if hasattr(value, "add") else [value]))
        return found

    trace = Trace.FromString(Path(file).read_bytes())
    names, keys, texts, titles = {}, {}, {}, {}
    found: dict[str, Any] = {"names": Counter(), "threads": [], "levels": {}, "unbalanced": 0}
    open_slices: dict[int, list[int]] = defaultdict(list)
    args = defaultdict(set)
    leaving, arriving = set(), set()
    for packet in trace.packet:
        data, track = packet.interned_data, packet.track_descriptor
        names |= {each.iid: each.name for each in data.event_names}
        keys |= {each.iid: each.name for each in data.debug_annotation_names}
        texts |= {each.iid: each.str.decode() for each in data.debug_annotation_string_values}
        titles[track.uuid] = track.name
        if track.HasField("thread"):
            found["threads"].append(track.thread.thread_name)
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            found["names"][names[event.name_iid]] += 1
            open_slices[event.track_uuid].append(packet.timestamp)
            leaving |= {*event.flow_ids}
            arriving |= {*event.terminating_flow_ids}
            for each in event.debug_annotations:
                value = texts[each.string_value_iid] if each.string_value_iid else each.int_value
                args[keys[each.name_iid]].add(str(value))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            begun = open_slices[event.track_uuid]
            found["unbalanced"] += not begun or begun.pop() > packet.timestamp
        elif event.type == TrackEvent.TYPE_COUNTER:
            found["levels"][titles[event.track_uuid]] = event.counter_value
    found["unbalanced"] += sum(map(len, open_slices.values()))
    found["flows"] = len(leaving & arriving) if leaving == arriving else -1
    found["args"] = {key: sorted(values) for key, values in args.items()}
    return found | {"unknown": sum(map(unknown, trace.packet))}


def tensorboard(file: str) -> dict[str, Any]:
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    head, graph = (Event.FromString(each) for each in RawEventFileLoader(file).Load())
    nodes = GraphDef.FromString(graph.graph_def).node
    return {
        "version": head.file_version,
        "nodes": [{"name": n.name, "op": n.op, "inputs": [*n.input]} for n in nodes],
        "shapes": sum("_output_shapes" in node.attr for node in nodes),
    }


if __name__ == "__main__":
    reader = {"perfetto": perfetto, "tensorboard": tensorboard}[sys.argv[1]]
    print(json.dumps([reader(file) for file in sys.argv[2:]]))
