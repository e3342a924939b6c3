"""Without DuckDB and pyarrow (the extra `fleet`) there is nothing to ask."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("duckdb") and find_spec("pyarrow") else ["test_*.py"]
