"""Removes from a trace what its owner may not want to share: see `redacted`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from gradscope.trace.assemble import assemble
from gradscope.trace.file.intern import InternedTexts
from gradscope.trace.privacy.secret_names import words_of
from gradscope.trace.ragged import Data, Ragged
from gradscope.trace.schema.declare import TABLES, columns
from gradscope.trace.schema.run_facts import ARGUMENTS
from gradscope.trace.schema.tables import Meta, Source, String
from gradscope.trace.table import Block
from gradscope.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REMOVED: Final = "(removed)"
INSTALLED: Final = re.compile(r".*?((?:site-packages|dist-packages|lib/python3\.?\d*)/.*)")
MESSAGE: Final = re.compile(r"([A-Za-z_][\w.]*)(?::.*)?", re.DOTALL)
EMPTIED: Final = {("frame", "text"), ("value", "data")}
MESSAGES: Final = {("finding", "message"), ("event.error", "message"), ("act.warning", "text")}
PATHS: Final = {("frame", "file")}
NAMES: Final = {
    ("frame", "function"), ("gathered", "names"), ("mark", "name"), ("mark", "note"),
    ("module", "name"), ("module", "path"), ("module", "type"), ("span", "name"), ("step", "name"),
    ("tensor", "name"), ("thread", "name"), ("unreached", "path"),
}  # fmt: skip
"""Columns with names chosen by the program. In tables of acts, these columns also have them:"""
ACT_NAMES: Final = {"hook", "name", "names", "within"}
KEPT_FACTS: Final = (
    "producer", "producer_version", "level", "on", "rank", "world_size", "clock_base", "python",
    "dropped", "unwanted", "observed", "inferred", "absent", "unseen", "follows_from", "exit_code",
    "raised_at", "run_as", "unfinished", "written_every", "cut", "steps_end_with", "own_time",
    "clock", "max_bytes", "no_machine_code", "not_shown", "restarts",
)  # fmt: skip
WORD: Final = re.compile(r"[^\W\d]\w*")
KNOWN_WORDS: Final = words_of(
    "weight bias grad running_mean running_var num_batches_tracked forward backward __init__ "
    "__call__ module lambda genexpr listcomp dictcomp locals MainThread Thread Linear Conv1d "
    "Conv2d Conv3d BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm GroupNorm RMSNorm Embedding "
    "Dropout ReLU GELU SiLU Tanh Sigmoid Softmax Sequential ModuleList ModuleDict ParameterList "
    "LSTM GRU RNN MultiheadAttention TransformerEncoder TransformerEncoderLayer MaxPool2d "
    "AvgPool2d AdaptiveAvgPool2d Flatten Identity CrossEntropyLoss MSELoss BCEWithLogitsLoss "
    "NLLLoss SGD Adam AdamW RMSprop Adagrad LBFGS"
)
"""Words of PyTorch and Python, which reveal nothing about the program."""


def redacted(trace: Trace, *, rename: bool = False) -> Trace:
    """The same events without source text, arguments, messages, host, user and absolute paths.

    Shapes, times, line numbers and statistics of values stay, and so do the names of files,
    modules, parameters and functions. `rename` replaces those by numbered names; the same
    name always gets the same replacement.
    """
    return _Redaction(trace, rename=rename).trace()


class _Redaction:
    """Creates new tables with new text ids, so that no text of the old ones is left."""

    def __init__(self, trace: Trace, *, rename: bool) -> None:
        self._old = trace
        self._rename = rename
        self._texts = InternedTexts()
        self._paths: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        self._folder = str(trace.meta.get("cwd", "")).replace("\\", "/").rstrip("/")

    def trace(self) -> Trace:
        kept = (
            name
            for name, table in self._old.tables.items()
            if name in TABLES and name not in {String.TABLE, Meta.TABLE, Source.TABLE} and table
        )
        blocks = [self._block(name) for name in kept]
        blocks.append(self._meta())
        made = assemble([*self._texts.block(range(1, len(self._texts))), *blocks])
        return Trace(
            made.tables,
            version=self._old.version,
            truncated=self._old.truncated,
            horizon=self._old.horizon,
            lost=self._old.lost,
        )

    def _block(self, name: str) -> Block:
        """The rows of a table, with their texts changed."""
        table = self._old.tables[name]
        found: dict[str, Data] = {}
        for column in columns(TABLES[name]):
            data = table[column.name]
            if column.interned:
                change = self._change(name, column.name)
                if isinstance(data, Ragged):
                    data = Ragged(data.offsets, self._anew(data.values, change))
                else:
                    data = self._anew(data, change)
            found[column.name] = data
        return Block(name, len(table), found)

    def _anew(self, ids: Any, change: Callable[[str], str]) -> Any:
        """The ids of the changed texts."""
        old, places = np.unique(np.asarray(ids, np.int64), return_inverse=True)
        new = [self._texts.intern(change(self._old.text(int(id)))) for id in old]
        return np.array(new, np.int64)[places]

    def _change(self, table: str, column: str) -> Callable[[str], str]:
        """The function that is applied to the texts of a column."""
        if (table, column) in EMPTIED:
            return _nothing
        if (table, column) in MESSAGES:
            return _without_message
        if (table, column) in PATHS:
            return self._path
        is_name = (table, column) in NAMES or (table.startswith("act.") and column in ACT_NAMES)
        return self._name if is_name and self._rename else str  # interning masks secrets

    # Replacements ------------------------------------------------------------------------------

    def _path(self, path: str) -> str:
        if not path or path.startswith("<"):
            return path
        plain = path.replace("\\", "/")
        is_absolute = plain.startswith("/") or plain[1:3] == ":/"
        whole = plain if is_absolute or not self._folder else f"{self._folder}/{plain}"
        if whole not in self._paths:
            self._paths[whole] = self._shown(whole)
        return self._paths[whole]

    def _shown(self, path: str) -> str:
        installed = INSTALLED.fullmatch(path)
        if installed:
            return installed[1]
        if self._rename:
            return f"file{len(self._paths) + 1}.py"
        inside = path.removeprefix(f"{self._folder}/")
        is_outside = inside.startswith(("/", "..")) or inside[1:3] == ":/"
        shown = inside.rpartition("/")[2] if is_outside else inside
        taken = {*self._paths.values()}
        while shown in taken:  # by another file with that name
            shown = f"other/{shown}"
        return shown

    def _name(self, name: str) -> str:
        return WORD.sub(lambda found: self._word(found[0]), name)

    def _word(self, word: str) -> str:
        if word in KNOWN_WORDS:
            return word
        return self._words.setdefault(word, f"name{len(self._words) + 1}")

    def _host(self, host: str) -> str:
        return self._hosts.setdefault(host, f"host{len(self._hosts) + 1}")

    # The run -------------------------------------------------------------------------------------

    def _meta(self) -> Block:
        meta = self._old.meta
        facts: dict[str, Any] = {key: meta[key] for key in KEPT_FACTS if key in meta}
        facts["script"] = self._path(meta.get("script", ""))
        facts["arguments"] = []
        facts["host"] = self._host(meta.get("host", ""))
        left_out = {*meta.get("left_out", ()), ARGUMENTS, Source.TABLE}
        facts["left_out"] = sorted(left_out)
        facts["redacted"] = "secrets and names" if self._rename else "secrets"
        if "exit" in meta:
            facts["exit"] = _without_message(meta["exit"])
        if "children" in meta:
            facts["children"] = [self._child(each) for each in meta["children"]]
        if "ranks" in meta:
            facts["ranks"] = [
                {**each, "host": self._host(each.get("host", "")), "pid": 0}
                | ({"exit": _without_message(each["exit"])} if "exit" in each else {})
                for each in meta["ranks"]
            ]
        rows = {key: orjson.dumps(value).decode() for key, value in facts.items()}
        intern = self._texts.intern
        columns = {
            "key": np.array([intern(key) for key in rows], np.int64),
            "value": np.array([intern(value) for value in rows.values()], np.int64),
        }
        return Block(Meta.TABLE, len(rows), columns)

    def _child(self, child: Mapping[str, Any]) -> dict[str, Any]:
        file, colon, line = str(child.get("line", "")).rpartition(":")
        place = f"{self._path(file)}{colon}{line}" if colon else ""
        traces = (
            {"traces": [self._path(each) for each in child["traces"]]} if "traces" in child else {}
        )
        kind, many = child.get("kind", ""), child.get("count", 0)
        return {"kind": kind, "line": place, "count": many, **traces}


def _nothing(_: str) -> str:
    return ""


def _without_message(text: str) -> str:
    """The type of an exception, without its message, which may contain anything."""
    if not text or text == "ok":
        return text
    found = MESSAGE.fullmatch(text)
    is_type = found is not None and ":" in text
    return f"{found[1]}: {REMOVED}" if found is not None and is_type else REMOVED
