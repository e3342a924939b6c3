"""Known findings of a project, kept in a file, which are not reported again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from gradscope.analysis.findings import Finding
from gradscope.errors import UsageError

VERSION = 1


def known_ids(path: str | PathLike[str]) -> frozenset[str]:
    """The ids in a file of known findings, or in a report of `inspect --json`."""
    file = Path(path)
    try:
        document = json.loads(file.read_bytes())
        return frozenset(str(each["id"]) for each in document["findings"])
    except FileNotFoundError:
        hint = f"create it: gradscope inspect TRACE --known {file.name} --write-known"
        raise UsageError(f"there is no file of known findings '{file}'; {hint}") from None
    except OSError as error:
        raise UsageError(f"cannot read the known findings in '{file}': {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(
            f"'{file}' contains no findings; create it with --write-known or inspect --json"
        ) from None


def known_text(findings: Iterable[Finding]) -> str:
    """The contents of a file of known findings. Only ids are used; the rest is for readers."""
    rows = [
        {
            "id": each.id,
            "rule": each.rule,
            "slug": each.slug,
            "severity": each.severity.name.lower(),
            "place": each.site.place,
            "text": each.site.text,
            "message": each.message,
        }
        for each in findings
    ]
    return json.dumps({"version": VERSION, "findings": rows}, ensure_ascii=False, indent=2) + "\n"
