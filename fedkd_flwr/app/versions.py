"""Which releases a process computes with, for records and logs."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["installed_versions"]

_NAMES = ("fedkd-flwr", "flwr", "ray", "numpy", "scikit-learn", "torch", "transformers", "xgboost")


def installed_versions() -> dict[str, str]:
    """Return the versions of this package and of what computes for it, as far as it is installed."""
    return {name: found for name in _NAMES if (found := _version(name))}


@cache  # a package's metadata is a long text, which is parsed anew at each look
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
