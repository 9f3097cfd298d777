"""What noise is added where, what it provably costs, and who has spent what."""
