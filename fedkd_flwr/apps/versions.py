"""Which releases a process computes with, for records and logs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["installed_versions"]


def installed_versions() -> dict[str, str]:
    """Return the versions of this package and of what computes for it, as far as it is installed."""
    found = {}
    for name in ("fedkd-flwr", "flwr", "ray", "numpy", "scikit-learn", "torch", "transformers", "xgboost"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
