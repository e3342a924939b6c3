"""Rules about parameters that no gradient comes to, or whose gradient nobody uses."""
