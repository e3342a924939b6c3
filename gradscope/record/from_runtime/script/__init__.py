"""A script whose `import torch` is the runtime."""
