"""Collecting the tests in several processes, of which each does a part of what is done only once.

pytest rewrites the assertions of each test file, and Python compiles what it imports; both keep
what they made. On a fresh machine that is half of what collecting costs, and workers that begin
with the same file would each do all of it at the same time.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest


def import_in_turn(config: pytest.Config) -> None:
    """Import all test files that will be collected, each worker from another on: what it comes to
    later, others have rewritten by then.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    files = test_files(config)
    begin = len(files) * number // count
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for file in files[begin:] + files[:begin]:
            with suppress(Exception, pytest.skip.Exception):  # collecting it says what there is
                import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


def test_files(config: pytest.Config) -> list[Path]:
    """Those below the paths that were asked for that conftest.py does not leave out.

    In a package a file has another name to pytest.
    """
    asked = {(config.invocation_params.dir / each.partition("::")[0]) for each in config.args}
    found = {
        file for path in asked for file in ([path] if path.is_file() else path.rglob("test_*.py"))
    }
    return sorted(
        file
        for file in found
        if not (file.parent / "__init__.py").exists()
        and not config.hook.pytest_ignore_collect(collection_path=file, config=config)
    )
