"""`python -m shapes --epochs 2 --accumulate 2 --amp --workers 2 --out runs`."""

from .config import parse
from .train import main

if __name__ == "__main__":
    main(parse())
