"""The questions of `gradscope ask`, one TOML file each. `asking/question.py` says what it holds."""
