"""Every error the engine raises on purpose, one function each, by topic.

A function takes what is known where the error is raised, and returns the error; the caller raises
it. errors/declare.py defines the parts of an error; docs/engine/errors.md lists all errors.
"""

from __future__ import annotations
