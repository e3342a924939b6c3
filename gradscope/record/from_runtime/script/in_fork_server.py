"""Imported first by a fork server, so that `import torch` also returns the runtime there."""

from __future__ import annotations

from gradscope.record.from_runtime.script.aliases import install

install()
