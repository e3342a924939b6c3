"""Rules about parameters that no gradient reaches, or whose gradient is not used."""
