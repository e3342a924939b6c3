"""Writes the graph of a trace to a file, in the format of its extension."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gradscope.analysis.graph.selection import Selection
from gradscope.errors import RenderingError, UsageError
from gradscope.render.formats import (
    Drawn,
    Format,
    Takes,
    format_called,
    format_names,
    format_of_file,
)
from gradscope.render.text import visible
from gradscope.render.theme import THEMES
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import GraphScene
from gradscope.scene.layout.legible import legible_scene
from gradscope.trace.trace import Trace

if TYPE_CHECKING:
    from gradscope.scene.network import Network
    from gradscope.scene.timeline.tracks.tracks import Tracks
    from gradscope.scene.viewer.scene import Earlier
    from gradscope.scene.viewer.text_columns import ViewerScene

TRACE_ENDINGS = (".gz", ".zst", ".json")


Shown: TypeAlias = "GraphScene | ViewerScene | Tracks | Network"


@dataclass(frozen=True, slots=True)
class WrittenPicture:
    """A picture that was written to a file."""

    path: Path
    scene: Shown
    notes: tuple[str, ...] = ()  # what is not shown, or was shrunk


def render(
    trace: Trace,
    path: str | PathLike[str],
    *,
    format: str | None = None,
    around: str | None = None,
    step: int | None = None,
    task: int | None = None,
    options: GraphOptions | None = None,
    theme: str = "light",
) -> WrittenPicture:
    """Draw the graph of a trace into a file; its extension gives the format unless `format` does.

    `around`, `step` and `task` choose a part. `options`: a `GraphOptions` with everything else
    that the options of `gradscope render` choose (`gradscope.scene.graph.options`).
    """
    target = Path(path)
    name = format or format_of_file(target.name)
    if not name:
        raise UsageError(_no_format(target))
    if theme not in THEMES:
        raise UsageError(f"there is no theme {theme!r}; choose {', '.join(THEMES)}")
    options = options or GraphOptions()
    chosen = {"around": around, "step": step, "task": task}
    given = {key: value for key, value in chosen.items() if value is not None}
    selection = replace(options.selection, **given)  # type: ignore[arg-type]
    options = replace(options, selection=selection)
    scene, drawn = drawn_as(format_called(name), trace, options, theme)
    put(target, drawn.content)
    return WrittenPicture(target, scene, drawn.notes)


def drawn_as(
    format: Format,
    trace: Trace,
    options: GraphOptions,
    theme: str = "",
    earlier: Earlier | None = None,
) -> tuple[Shown, Drawn]:
    """A trace in one format, and the scene. Without a theme a page follows the reader's system.

    Raises UsageError for options that the format does not support.
    """
    if format.takes == "picture":
        scene = legible_scene(trace, options)
        drawn = format.write(scene, THEMES[theme or "light"])
        return scene, drawn._replace(notes=(*scene.notes, *drawn.notes))
    whole = whole_scene(trace, options, format.takes, earlier)
    return whole, format.write(whole, THEMES[theme] if theme == "dark" else None)


def whole_scene(
    trace: Trace, options: GraphOptions, takes: Takes, earlier: Earlier | None = None
) -> ViewerScene | Tracks | Network:
    """The scene of a format that is no picture."""
    match takes:
        case "tracks":
            from gradscope.scene.timeline.tracks.tracks import tracks  # noqa: PLC0415 - 10 ms

            return tracks(trace, _chosen(options, TRACKS))
        case "network":
            from gradscope.scene.network import network  # noqa: PLC0415 - 5 ms

            return network(trace, _chosen(options, NETWORK))
        case _:
            return page_scene(trace, options, earlier)


TRACKS = "a file of events over time", "--step and --task"
NETWORK = "a file of the whole graph", "--step, --task, --around, --hops, --path-to and --critical"


def _chosen(options: GraphOptions, kind: tuple[str, str]) -> Selection:
    """The selected part. Options that shape a picture are refused."""
    chosen = options.selection
    allowed = Selection(chosen.step, chosen.backward) if kind is TRACKS else chosen
    if options != GraphOptions(allowed, everything=options.everything):
        what, taken = kind
        raise UsageError(
            f"{what} has no folding and no colours, so of the options that select or shape a "
            f"picture it supports only {taken}"
        )
    return allowed


def page_scene(trace: Trace, options: GraphOptions, earlier: Earlier | None = None) -> ViewerScene:
    """The scene of a page, for a trace or one of its steps or backwards. `around`: where it starts.

    Raises UsageError for options that only pictures support.
    """
    if options.graph is GraphOf.PLAN:
        raise UsageError(
            "a page shows the forward and the backward graph; draw the plans of captured steps "
            "as a picture: gradscope render TRACE --graph plan -o plan.svg"
        )
    chosen = options.selection
    in_page = Selection(chosen.step, chosen.backward, chosen.around)
    graph = None if options.graph is GraphOf.BOTH else options.graph
    if options != GraphOptions(in_page, everything=options.everything, graph=graph):
        raise UsageError(
            "a page holds the whole graph and folds by a click, so of the options that select or "
            "shape a picture it supports --step, --task, --around and --graph forward|backward"
        )
    from gradscope.scene.viewer.scene import viewer_scene  # noqa: PLC0415 - 30 ms, with all rules

    return viewer_scene(trace, in_page, earlier, graph or GraphOf.BACKWARD)


def _no_format(path: Path) -> str:
    endings = ", ".join(format_called(each).extension for each in format_names())
    return f"{visible(path.name)} has no known extension: use one of {endings}, or -f FORMAT"


def put(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise RenderingError(f"cannot write {visible(str(path))}: {reason}") from None


@dataclass(frozen=True, slots=True)
class Target:
    """Where a picture goes, and in which format."""

    path: Path | None  # None: the standard output
    format: Format


def target_of(trace: Path, output: Path | None, format_name: str | None) -> Target:
    """The target of `-o` and `-f`; without them, an SVG next to the trace."""
    if output is None:
        format = format_called(format_name or "svg")
        return Target(_beside(trace, format), format)
    name = format_name or format_of_file(output.name)
    if str(output) == "-":
        return Target(None, format_called(name or "svg"))
    if not name:
        raise UsageError(_no_format(output))
    if output.absolute() == trace.absolute():
        raise UsageError(f"{visible(str(output))} is the trace itself; write to another file")
    return Target(output, format_called(name))


def _beside(trace: Path, format: Format) -> Path:
    """The path of the trace with the extension of the format."""
    name = trace.name
    for ending in TRACE_ENDINGS:
        name = name.removesuffix(ending) or name
    extension = ".graph.json" if format.extension in TRACE_ENDINGS else format.extension
    return trace.with_name(f"{name}{extension}")
