"""What a program does that is no operation, noted as acts; the same for every engine.

Both engines have the same Python names for it, so what is watched is those names: `stand_ins.py`
puts functions of ours in their place, `notes.py` makes rows of what they tell.
"""
