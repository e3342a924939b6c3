"""Short scripts as people write them, each with one planted bug, and a fixed twin.

A case is one file, `cases/<family>/<name>.py`: the buggy script, and in comments what its twin
differs in.

    code  # BUG kind       the line a person would change, and what is wrong with it (kinds.py)
    code  # ALSO           another line that a person would accept as the answer
    # FIX code             stands in the twin in place of the line above; several of these, too;
                           alone, nothing stands in its place
    # ADD code             stands in the twin only

Where a line is missing, the culprit is the line at which that shows. `case.py` makes the two
scripts of a file: neither keeps a mark, and the buggy one keeps its line numbers. `score.py`
records both, asks `inspect`, and says what it named: `python -m tests.zoo.score --help`.

`sound/` holds scripts that look like a bug and are none: what a rule may not say anything against.
"""
