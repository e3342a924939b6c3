"""What changed between two runs, as a person would name it: `changes`."""

from gradscope.analysis.likeness.changes.all import changes
from gradscope.analysis.likeness.changes.change import BEHAVIOR, Change, ChangeKind

__all__ = ["BEHAVIOR", "Change", "ChangeKind", "changes"]
