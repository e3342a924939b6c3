"""Run the benches, all or those named: `python -m bench startup engine`.

`--threads 2` measures with so many (else one and then two), `--only LSTM` only what has that in its
name: for the benches that compare steps (chains, replaying, training).
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from argparse import ArgumentParser

import bench
from bench.measure import chosen, processor
from bench.roofline import of_script

NOT_BENCHES = {"__main__", "measure", "models", "watched_models"}


def names() -> list[str]:
    """A bench is a file here with a function `main()`."""
    found = [module.name for module in pkgutil.iter_modules(bench.__path__)]
    return [
        name for name in found if name not in {"__main__", "measure", "models", "watched_models"}
    ]


def main(wanted: list[str]) -> int:
    """Run them one after another; 2 when there is none of that name."""
    if wanted[:1] == ["roofline"] and wanted[1:]:
        return of_script(wanted[1:])
    parser = ArgumentParser("bench")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--only", default="")
    said = parser.parse_args(wanted)
    wanted, chosen.only = said.names, said.only
    if said.threads:
        chosen.threads = (said.threads,)
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        print(f"no bench called {', '.join(unknown)}; there are: {', '.join(names())}")
        return 2
    print(f"on {processor()}")
    for name in wanted or names():
        module = importlib.import_module(f"bench.{name}")
        print(f"\n{name}: {(module.__doc__ or '').strip().splitlines()[0]}", flush=True)
        module.main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
