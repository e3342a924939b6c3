"""Rules about ranks that train together."""
