"""What a trace says of a run that would hold of any other run of the program, on any engine.

`likeness` tells it in lines; `compare` finds where two traces differ.
"""

from gradscope.analysis.likeness.compare import Comparison, compare
from gradscope.analysis.likeness.lines import likeness
from gradscope.analysis.likeness.orders import Tolerance
from gradscope.analysis.likeness.parts import not_seen

__all__ = ["Comparison", "Tolerance", "compare", "likeness", "not_seen"]
