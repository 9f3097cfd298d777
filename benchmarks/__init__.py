"""Measurements that are run by hand, and the harness that runs published tables again; not part of the package."""
