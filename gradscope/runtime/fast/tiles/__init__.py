"""Matrix products by tiles that fit into registers."""
