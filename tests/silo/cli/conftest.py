"""The command as a test calls it, also here."""

from cli.conftest import fedkd

__all__ = ["fedkd"]
