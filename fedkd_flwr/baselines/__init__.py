"""Methods that send weights, to compare with: a party has to allow them by name. A file each, with both sides."""
