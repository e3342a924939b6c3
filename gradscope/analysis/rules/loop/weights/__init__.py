"""Rules about the weights and buffers of modules: shared, copied, filled, averaged."""
