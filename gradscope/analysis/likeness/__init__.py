"""The facts of a trace that do not depend on the run or the engine.

`likeness` returns them as lines; `compare` finds the differences of two traces, and names what
changed.
"""

from gradscope.analysis.likeness.changes import Change, ChangeKind
from gradscope.analysis.likeness.compare import Comparison, compare
from gradscope.analysis.likeness.lines import likeness
from gradscope.analysis.likeness.orders import Tolerance
from gradscope.analysis.likeness.parts import not_seen

__all__ = ["Change", "ChangeKind", "Comparison", "Tolerance", "compare", "likeness", "not_seen"]
