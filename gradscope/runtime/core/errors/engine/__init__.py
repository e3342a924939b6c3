"""Every error the engine raises on purpose, one function each, by topic.

A function takes what is known where the error is raised and returns the error; `raise` stands at
the caller's. See errors/declare.py for what it is made of, docs/engine/errors.md for all of them.
"""

from __future__ import annotations
