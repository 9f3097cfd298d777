"""Files that must survive: a party's state, ledger and subset, a server's checkpoints; atomic, safe, mode 0600."""
