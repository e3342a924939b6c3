"""Record every sample, draw it, and put what came out into the README's gallery.

    python docs/gallery.py             # all samples
    python docs/gallery.py hook mlp    # only these; the rest of the gallery stays as it is
    python docs/gallery.py --shown     # record nothing: pictures and texts anew, of traces there

A sample is a script in samples/, or one of a few in samples/models/, whose docstring's first line
is its title. Traces and pictures go to docs/gallery/.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[1]
README = HOUSE / "README.md"
SAMPLES = HOUSE / "samples"
GALLERY = HOUSE / "docs" / "gallery"

BEGIN = "<!-- gallery: written by docs/gallery.py; edit there -->\n"
END = "<!-- /gallery -->\n"
LINES_SHOWN = 30
PART = {"shared_weight": ("--merge-leaves",)}
"""How a sample is drawn, other than all are."""
BESIDES = {
    "double_backward": ("both", ("--graph", "both")),
    "resnet": ("forward", ("--graph", "forward")),
}
"""A second picture of a sample: what its file is called, and how it is drawn."""
ONE_STEP = {"resnet": ("1",), "gpt": ("1",)}
"""Of samples/models: those that are drawn, and what tells them to make one step."""
LARGE = ("rnn", *ONE_STEP)
"""Their traces are compressed, and hold no statistics of values."""
WIDTH = "100"


def titles() -> dict[str, str]:
    """Each sample's title, by name, the simplest sample (`first_graph`) first."""
    paths = sorted(SAMPLES.glob("*.py"), key=lambda path: (path.stem != "first_graph", path.stem))
    return {path.stem: _title(path) for path in (*paths, *map(script_of, ONE_STEP))}


def script_of(name: str) -> Path:
    """Where a sample's script is."""
    return SAMPLES / ("models" if name in ONE_STEP else "") / f"{name}.py"


def trace_of(name: str) -> str:
    """Where its trace goes."""
    return f"docs/gallery/{name}.json{'.gz' if name in LARGE else ''}"


def _title(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem
    return docstring.splitlines()[0].rstrip(".")


def gradscope(*arguments: str) -> str:
    """What the command printed, as through a pipe of 100 columns."""
    outcome = subprocess.run(
        [Path(sys.executable).with_name("gradscope"), *arguments],
        cwd=HOUSE,
        env={**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # A sample may fail on purpose; its trace is what counts. Anything else must succeed.
    if outcome.returncode != 0 and arguments[0] not in {"trace", "inspect"}:
        sys.exit(f"gradscope {' '.join(arguments)}\n{outcome.stdout}{outcome.stderr}")
    return outcome.stdout


def record(name: str) -> None:
    """The trace of one sample."""
    trace, script = trace_of(name), str(script_of(name).relative_to(HOUSE))
    GALLERY.mkdir(exist_ok=True)
    level = "engine" if name in LARGE else "values"
    recorded = ("trace", "--on", "gradscope", "--level", level, "-o", trace)
    gradscope(*recorded, script, *ONE_STEP.get(name, ()))


def show(name: str) -> None:
    """The pictures and the texts of one sample."""
    trace = trace_of(name)
    gradscope("render", *PART.get(name, ()), "-o", f"docs/gallery/{name}.svg", trace)
    if name in BESIDES:
        kind, options = BESIDES[name]
        gradscope("render", *options, "-o", f"docs/gallery/{name}.{kind}.svg", trace)
    for view in ("timeline", "inspect"):
        text = gradscope(view, trace).replace(f"{HOUSE}{os.sep}", "")
        (GALLERY / f"{name}.{view}.txt").write_text(text, encoding="utf-8", newline="\n")


def entry(name: str, title: str) -> str:
    """What the README shows of one sample."""
    picture = f"docs/gallery/{name}.svg"
    trace, script = trace_of(name), script_of(name).relative_to(HOUSE).as_posix()
    return (
        f"### {title}\n\n"
        f"[{script}]({script}) · [trace]({trace})\n\n"
        f"![the graph of {name}]({picture})\n\n"
        f"{drawn(name)}"
        f"<details><summary>what gradscope says of it</summary>\n\n"
        f"```\n$ gradscope inspect {trace}\n{excerpt(name, 'inspect')}```\n\n"
        f"```\n$ gradscope timeline {trace}\n{excerpt(name, 'timeline')}```\n\n"
        "</details>\n"
    )


def drawn(name: str) -> str:
    """The command that drew it, where it is not the usual one; and the second picture."""
    if name in PART:
        return f"Drawn by `gradscope render {' '.join(PART[name])} {trace_of(name)}`.\n\n"
    if name not in BESIDES:
        return ""
    kind, options = BESIDES[name]
    return (
        f"`gradscope render {' '.join(options)} {trace_of(name)}`:\n\n"
        f"![{kind}: {name}](docs/gallery/{name}.{kind}.svg)\n\n"
    )


def excerpt(name: str, view: str) -> str:
    """The first lines of a text, and how many more there are."""
    lines = (GALLERY / f"{name}.{view}.txt").read_text(encoding="utf-8").splitlines()
    shown = [line.rstrip() for line in lines[:LINES_SHOWN]]
    if len(lines) > LINES_SHOWN:
        shown.append(f"… {len(lines) - LINES_SHOWN} more lines")
    return "".join(f"{line}\n" for line in shown)


def gallery() -> str:
    """The whole gallery, of the samples made so far."""
    made = (
        entry(name, title) for name, title in titles().items() if (GALLERY / f"{name}.svg").exists()
    )
    return "\n".join(made)


def main(names: list[str]) -> None:
    only_shown = "--shown" in names
    for name in [each for each in names if each != "--shown"] or titles():
        if not only_shown:
            record(name)
        show(name)
        print(f"docs/gallery/{name}.svg")
    text = README.read_text(encoding="utf-8")
    between = re.compile(f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", re.DOTALL)
    README.write_text(between.sub(lambda _: gallery(), text), encoding="utf-8", newline="\n")
    print("README.md")


if __name__ == "__main__":
    main(sys.argv[1:])
