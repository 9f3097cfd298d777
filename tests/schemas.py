"""Columns of small schemas."""

from fedkd_flwr.data.schema import Column


def column(name, *categories, kind="", **more):
    """Return a column of these categories; without any, of numbers, or of another kind."""
    return Column(name=name, kind=kind or ("categorical" if categories else "numeric"), categories=categories, **more)
