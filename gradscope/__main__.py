"""`python -m gradscope` is `gradscope`."""

from __future__ import annotations

from gradscope.cli import main

if __name__ == "__main__":
    main()
