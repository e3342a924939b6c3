"""Short programs of two ranks, each with one planted bug of training on several processes.

They are written as `tests/zoo/cases` are. `score.py` records both ranks of a case and of its twin,
looks at the traces together, and says what is named: `python -m tests.zoo.ranks.score --help`. A
case is named if a warning or an error is at one of its lines; `first_score.txt` is what was named
before any rule was changed for it, `not_named.txt` what is not named now, with the reasons.
"""
