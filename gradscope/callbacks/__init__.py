"""What others call: pytest, training loops. Nothing of theirs is imported before they are."""

from __future__ import annotations
