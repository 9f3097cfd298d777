"""Arrays to bytes and back, and the door that turns them into Flower's records."""
