"""Which model files this user's own runs wrote: each carries a digest keyed by a secret in ``~/.fedkd``, mode 0600.

A file that somebody else wrote, or that was changed, has no digest that fits. Copies and renamed files keep theirs. The
digest says nothing to whoever does not have the secret.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from typing import Any

from fedkd_flwr.files import HOME, make_folder

__all__ = ["is_own", "marked"]

SECRET = HOME / "model-files.key"
_BYTES = 32


def marked(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's description with this user's keyed digest of it; without one where no secret can be kept."""
    bare = {name: value for name, value in meta.items() if name != "own"}
    secret = _secret() or _new_secret()
    return {**bare, "own": _digest(bare, secret)} if secret else bare


def is_own(meta: Mapping[str, Any]) -> bool:
    """Tell whether this user wrote the file with this description, which holds the digests of all its contents."""
    bare, secret = {name: value for name, value in meta.items() if name != "own"}, _secret()
    return bool(secret) and hmac.compare_digest(_digest(bare, secret).encode(), str(meta.get("own", "")).encode())


def _digest(meta: Mapping[str, Any], secret: bytes) -> str:
    as_read = json.loads(json.dumps(meta))  # keys that are numbers become texts in a file, and are sorted otherwise
    return hmac.new(secret, json.dumps(as_read, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _secret() -> bytes:
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: a user without a home
        found = SECRET.expanduser().read_bytes()
        return found if len(found) == _BYTES else b""
    return b""


def _new_secret() -> bytes:
    """Make the secret; of several processes that do so at once, the first one's is everybody's."""
    with contextlib.suppress(OSError, RuntimeError):
        path = SECRET.expanduser()
        make_folder(path.parent)
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".key-")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(_BYTES))
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # the name appears with the whole content, or another process was first
        finally:
            os.unlink(draft)
    return _secret()
