"""Privacy claims: what a run states, and about whom."""
