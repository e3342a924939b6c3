"""Tests of the faults planted in the engine."""
