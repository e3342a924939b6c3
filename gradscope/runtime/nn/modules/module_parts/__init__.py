"""Parts of `Module`: hooks, calls, state and traversal."""
