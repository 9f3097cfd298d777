"""Processes: which one writes something and whether it still runs, work in a child with limits, ends of what hangs."""
