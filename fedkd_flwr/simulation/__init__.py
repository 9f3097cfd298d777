"""Whole federations on one machine: splitting rows, the in-process grid, the pool of processes."""
