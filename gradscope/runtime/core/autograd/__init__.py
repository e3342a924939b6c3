"""Derivatives: the engine that runs graphs, hooks, custom functions, tangents, modes."""
