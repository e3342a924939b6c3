"""Rules about graphs that live on: kept, retained, walked again."""
