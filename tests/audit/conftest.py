"""The command as tests of it call it."""

from cli.conftest import fedkd

__all__ = ["fedkd"]
