"""Hooks on tensors, on nodes, and on saved tensors."""
