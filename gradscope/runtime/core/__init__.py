"""The core of the runtime: tensors, operations, the engine. Not visible to scripts."""
