"""Random programs over tensors, as data: the same program runs on PyTorch and on our runtime.

`language` says what a program is and draws one, `words` what its instructions mean, `functions`
which custom Functions it may call, `hooks` what it may listen to, and `running` runs it and tells
everything a user can see of it.
"""

from __future__ import annotations

from tests.programs.language import Program, Run, programs
from tests.programs.running import outcome

__all__ = ["Program", "Run", "outcome", "programs"]
