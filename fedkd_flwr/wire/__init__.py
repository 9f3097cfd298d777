"""Arrays as bytes, and `records`, the one module that turns them into Flower's records."""
