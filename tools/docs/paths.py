"""Where the parts of the house are that the generators of the docs read and write."""

from __future__ import annotations

from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]
DOCS = HOUSE / "docs"
GALLERY = DOCS / "gallery"
SAMPLES = HOUSE / "samples"
