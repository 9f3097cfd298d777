"""Small schemas, and their columns."""

from fedkd_flwr.data.schema import Column, Schema


def column(name, *categories, kind="", **more):
    """Return a column of these categories; without any, of numbers, or of another kind."""
    return Column(name=name, kind=kind or ("categorical" if categories else "numeric"), categories=categories, **more)


def schema_of(*columns, classes=("no", "yes"), **more):
    return Schema(columns=columns, classes=classes, **more)
