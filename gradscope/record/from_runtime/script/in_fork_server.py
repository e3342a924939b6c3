"""What a fork server imports first, so that `import torch` gives the runtime in it, too."""

from __future__ import annotations

from gradscope.record.from_runtime.script.aliases import install

install()
