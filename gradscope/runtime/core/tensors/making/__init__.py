"""Factories: tensors from numbers, lists, arrays and sizes."""
