"""Small stand-ins for third-party packages, for machines without them."""
