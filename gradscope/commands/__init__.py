"""What `gradscope` can be told to do, a function each; `gradscope.cli` runs them."""
