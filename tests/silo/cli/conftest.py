"""The command as a test calls it, also here."""

from __future__ import annotations

from cli.conftest import fedkd

__all__ = ["fedkd"]
