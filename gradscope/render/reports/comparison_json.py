"""The result of `gradscope diff --json`."""

from __future__ import annotations

import json
from typing import Any

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.likeness import Change, Comparison
from gradscope.render.text import visible_json
from gradscope.scene.differences import DifferenceScene, DifferencesScene

VERSION = 1


def comparison_json(comparison: Comparison, scene: DifferencesScene) -> str:
    """The comparison for programs. Fields are added to it, never renamed."""
    shown = [each for each in (scene.first, *scene.others) if each is not None]
    document = {
        "version": VERSION,
        "traces": scene.traces,
        "differs": comparison.differs,
        "verdict": scene.verdict,
        "changes": [_change(each) for each in comparison.changes],
        "aspects": [
            {"aspect": str(each.kind), "compared": each.of, "differences": dict(each.counts)}
            for each in comparison.sections
        ],
        "first_differences": [_difference(each) for each in shown],
        "notes": scene.notes,
    }
    return visible_json(json.dumps(document, ensure_ascii=False, indent=2))


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": str(change.kind),
        "text": change.text,
        "words": change.words,
        "places": change.places,
        "sites": [_site(change.one), _site(change.other)],
        "nodes": [change.gone, change.nodes],
    }


def _site(site: Site) -> dict[str, Any] | None:
    if not site.place:
        return None
    return {"file": site.file, "line": site.line, "text": site.text}


def _difference(of: DifferenceScene) -> dict[str, Any]:
    sides = [{"trace": side.trace, "text": side.text, "source": side.source} for side in of.sides]
    return {"what": of.head, "sides": sides}
