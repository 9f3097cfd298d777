"""What noise provably costs."""
