"""Computes sampled nodes again when a recording ends, and records what differs.

# Note [In a process of its own]
The formulas are those of gradscope's own engine, which a process with PyTorch must not import: it
would take time and memory of the program, and a later recording would take it for the program's
engine. So the copies are written to a file, and `gradscope verify` reads it in a new process.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import orjson

from gradscope.errors import UsageError
from gradscope.record.acts.kept.node_values import values_file, write
from gradscope.trace.schema import NodeCheckAct, RowSharesAct

if TYPE_CHECKING:
    from gradscope.record.acts.notes import ActNotes
    from gradscope.watch.in_place.node_runs import CopiedRun, RowShares

LONGEST = 300
"""Number of seconds after which no further node is computed."""
MORE = 120
"""Number of seconds that the process may take to start and to end."""

ALL = "all"
SHARE = re.compile(r"(\d+(?:\.\d+)?)%")
DIFFERENCES = ("kernel", "precision")
UNSTEADY = "unsteady"
"""Replaces `kernel` if the node, called twice with the same values, returned other bits."""
COMPUTED = (*DIFFERENCES, "agrees")
ENVIRONMENT = frozenset({"GRADSCOPE"})
"""Variables that would record the new process."""


class ChecksOptions(Protocol):
    """The options of a recording that say which nodes are checked."""

    @property
    def check_nodes(self) -> str: ...

    @property
    def keep_values(self) -> bool: ...


class NodeChoice:
    """Which runs of nodes are computed again: `all`, a share as in `1%`, or names as in `Conv*`.

    A share chooses the first run of each line and shapes, and then every 100th for 1 %, every 20th
    for 5 %. It draws no random numbers.
    """

    def __init__(self, text: str) -> None:
        self._pattern, self._every = "*", 1
        share = SHARE.fullmatch(text)
        if share is not None:
            part = float(share[1]) / 100
            if not 0 < part <= 1:
                raise UsageError(f"--check-nodes {text}: a share is above 0% and at most 100%")
            self._every = max(round(1 / part), 1)
        elif text != ALL:
            self._pattern = text
        self._seen: Counter[tuple[str, Any]] = Counter()

    def __call__(self, kind: str, place: Any) -> bool:
        """Whether this run is; `place`: its line, and the shapes that it receives."""
        if not fnmatchcase(kind, self._pattern):
            return False
        if self._every == 1:
            return True
        self._seen[kind, place] = many = self._seen[kind, place] + 1
        return many % self._every == 1


def check_engine(options: ChecksOptions, facts: Mapping[str, Any]) -> None:
    """Raise UsageError if the engine with these facts cannot be checked."""
    if options.check_nodes and facts["producer"] != "pytorch":
        raise UsageError(
            "--check-nodes needs PyTorch: nodes are computed again by gradscope's own engine"
        )


class NodeChecks:
    """The nodes that a recording samples, and the result of computing them again."""

    def __init__(self, asked: str, keep: Path | None = None) -> None:
        self._asked = asked
        self._keep = keep
        self._recording = uuid4().hex if keep else ""
        self.due = NodeChoice(asked)
        self.samples: Any = None  # the copies; None: the engine was never watched
        self.facts: dict[str, Any] = {}
        """For the trace's `meta`: how many runs were checked, and how long it took."""

    @staticmethod
    def check(asked: str, level: str, *, keeps: bool) -> None:
        """Raise UsageError if nodes cannot be checked in this way."""
        if asked:
            NodeChoice(asked)
            if level == "graph":
                raise UsageError("--check-nodes needs level engine or above")
        elif keeps:
            raise UsageError("--keep-values needs --check-nodes, which says of which nodes")

    @classmethod
    def of(cls, options: ChecksOptions, writer: Any) -> NodeChecks | None:
        """The checks of a recording, if it has any."""
        if not options.check_nodes:
            return None
        path = getattr(writer, "path", None) if options.keep_values else None
        return cls(options.check_nodes, None if path is None else values_file(Path(path)))

    @staticmethod
    def tell_shares(acts: ActNotes, node: int, stack: int, found: RowShares) -> None:
        """Record the rows with the largest parts of the gradient of a weight."""
        many, rows, shares = found
        acts.note(
            RowSharesAct(node=node, many=many, largest=rows, shares=shares), None, stack=stack
        )

    def tell(self, acts: ActNotes) -> None:
        """Compute the samples again, and record what differs."""
        samples = self.samples
        if samples is None:
            return
        began = perf_counter_ns()
        runs: list[CopiedRun] = samples.all
        found, why = (
            _computed(runs, self._keep, self._recording) if runs or self._keep else ([], "")
        )
        self._tell_nodes(acts, runs, found)
        self._tell_hooks(acts)
        samples.all = []
        left_out: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (kind, reason), many in samples.without.items():
            left_out[reason][kind] += many
        for run, said in zip_longest(runs, found):
            if said is None or said["found"] not in COMPUTED:
                left_out[said["found"] if said else why][run.kind] += 1
        counts = Counter(str(each["found"]) for each in found)
        self.facts = {
            "asked": self._asked,
            "agree": counts["agrees"],
            "differ": sum(counts[each] for each in DIFFERENCES),
            "not_computed": {reason: dict(kinds) for reason, kinds in sorted(left_out.items())},
            "hooks": sum(bool(each.when) for each in samples.changes.values()),
            "copying_ns": samples.spent,
            "computing_ns": perf_counter_ns() - began,
            "recording": self._recording,
        }

    def _tell_nodes(
        self, acts: ActNotes, runs: list[CopiedRun], found: list[dict[str, Any]]
    ) -> None:
        """Record the worst run of each line, kind of node and kind of difference."""
        alike: dict[tuple[Any, ...], list[tuple[CopiedRun, dict[str, Any]]]] = {}
        for run, said in zip(runs, found, strict=False):
            if said["found"] in DIFFERENCES:
                key = run.kind, run.stack, _found(run, said), said["input"]
                alike.setdefault(key, []).append((run, said))
        for each in alike.values():
            run, said = max(each, key=lambda one: _number(one[1]["off"]))
            act = NodeCheckAct(
                found=_found(run, said), type=run.kind, node=run.node, input=said["input"],
                off=_number(said["off"]), allowed=_number(said["allowed"]),
                times=_number(said["times"]), right=_number(said["right"]), bits=said["bits"],
                runs=len(each),
            )  # fmt: skip
            acts.note(act, None, stack=run.stack)

    def _tell_hooks(self, acts: ActNotes) -> None:
        for change in self.samples.changes.values():
            if change.when:
                act = NodeCheckAct(
                    found="hook", type=change.kind, off=change.off, times=change.times,
                    runs=change.when,
                )  # fmt: skip
                acts.note(act, None, stack=change.site)


def _found(run: CopiedRun, said: dict[str, Any]) -> str:
    found = str(said["found"])
    return UNSTEADY if run.unsteady and found == "kernel" else found


def _computed(
    runs: list[CopiedRun], keep: Path | None, recording: str
) -> tuple[list[dict[str, Any]], str]:
    """What `gradscope verify` finds for each run; or why it found nothing."""
    with tempfile.TemporaryDirectory(prefix="gradscope-") as folder:
        path = keep or Path(folder, "nodes.npz")
        write(path, runs, recording)
        command = [sys.executable, "-P", "-m", "gradscope", "verify", "--json"]
        command += ["--seconds", str(LONGEST), str(path.absolute())]
        try:
            done = subprocess.run(  # noqa: S603
                command, capture_output=True, timeout=LONGEST + MORE, check=False,
                env=environment(), stdin=subprocess.DEVNULL, cwd=folder,
            )  # fmt: skip
            return orjson.loads(done.stdout)["runs"], ""
        except subprocess.TimeoutExpired:
            return [], "no time"
        except (OSError, ValueError, KeyError, TypeError):
            return [], "gradscope verify could not run"


def environment() -> Mapping[str, str]:
    """The environment of a process that imports this gradscope and is not recorded."""
    here = str(Path(__file__).parents[4])
    kept = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    paths = [here, *filter(None, [kept.get("PYTHONPATH", "")])]
    plain = {"GRADSCOPE_PLAIN": "1"}  # to compile kernels would take longer than they save
    return {**kept, **plain, "PYTHONPATH": os.pathsep.join(paths)}


def _number(value: float | None) -> float:
    """JSON has no NaN and no infinity."""
    return math.nan if value is None else float(value)
