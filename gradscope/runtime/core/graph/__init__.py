"""The backward graph: nodes, their creation, and buffers of gradients."""
