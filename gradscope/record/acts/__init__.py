"""Records events of the program that are not operations, as acts; the same for every engine.

Both engines have the same Python names for them, so these names are watched: `stand_ins.py`
replaces them by our functions, `notes.py` makes rows from what these report.
"""
