"""The commands of `gradscope`, a function each; `gradscope.cli` runs them."""
