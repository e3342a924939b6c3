"""Products of matrices by pieces that fit into a processor's registers."""
