"""Which app bundles the owner of a node has approved.

The list is a folder: a bundle is approved while its file is in it. The owner's own copies are kept: nothing is ever
learnt from the bytes that a server sends, except their hash.
"""

from __future__ import annotations

import io
import os
import stat
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from fedkd_flwr.errors import Code, DataError, explain
from fedkd_flwr.files import HOME, make_folder, write_atomic
from fedkd_flwr.report.formatting import one_line

__all__ = ["APPROVED", "Approvals", "Bundle", "build_bundle", "installed_differences"]

# Where approved bundles are kept, unless another folder is named: the machine's folder where there is one, as beside
# docs/deploy/fedkd-node.service, so that a node and whoever approves look into the same; else the user's own.
_MACHINES = Path("/etc/fedkd/approved")
APPROVED = _MACHINES if _MACHINES.is_dir() else HOME / "approved"
# Flower takes bundles of at most 10 MB; Python code shrinks to about a fifth.
MAX_UNPACKED_BYTES = 100_000_000


@dataclass(frozen=True)
class Bundle:
    """One app bundle, as ``flwr build`` makes it and ``flwr run`` sends it."""

    content: bytes  # the bundle itself, a zip file
    sha256: str  # its hash, 64 hexadecimal digits. Flower uses the same.
    app: str  # from its ``pyproject.toml``: publisher and name
    version: str
    client_app: str  # ``package.module:object``
    files: Mapping[str, bytes]  # its files without Flower's list of hashes

    @classmethod
    def from_bytes(cls, content: bytes, *, source: str) -> Bundle:
        """Read a bundle; raise `DataError` if the bytes are none, or more than 100 MB unpacked."""
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                unpacked = sum(item.file_size for item in archive.infolist())
                if not unpacked <= MAX_UNPACKED_BYTES:
                    rule = f"have at most {MAX_UNPACKED_BYTES:,} bytes unpacked"
                    raise DataError(explain(source, rule, f"{unpacked:,} bytes"))
                names = sorted(name for name in archive.namelist() if not name.startswith(".info/"))
                files = {name: archive.read(name) for name in names}
            project = tomllib.loads(files["pyproject.toml"].decode())
            app = project["tool"]["flwr"]["app"]
            return cls(
                content=content,
                sha256=sha256(content).hexdigest(),
                app=f"{app['publisher']}/{project['project']['name']}",
                version=str(project["project"]["version"]),
                client_app=str(app["components"]["clientapp"]),
                files=files,
            )
        except DataError:
            raise
        except Exception as error:  # damaged bytes may break anything, and a node must answer
            way_out = "Build it with `fedkd server bundle` or `flwr build`."
            raise DataError(explain(source, "be a Flower app bundle", type(error).__name__, way_out)) from error


def build_bundle(app: Path) -> Bundle:
    """Build the bundle of an app's folder, as ``flwr run`` does: equal files give an equal hash, wherever they are."""
    from flwr.cli.build import build_fab_from_disk

    if not (app / "pyproject.toml").is_file():
        way_out = "Name the folder of the app: a checkout, or the unpacked source archive of a release."
        raise DataError(explain(f"folder {app}", "hold a pyproject.toml", "none", way_out), code=Code.MISSING_FILE)
    return Bundle.from_bytes(build_fab_from_disk(app), source=f"app {app}")


class Approvals:
    """The bundles that the owner of a node has approved: one file each in a folder that only he can write to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser()

    def files(self) -> dict[Path, Bundle]:
        """Return the approved bundles by their files, the oldest first; refuse what somebody else may write to."""
        if not self.folder.is_dir():
            return {}
        try:
            _check_owner(self.folder)
            paths = sorted(self.folder.glob("*.fab"), key=lambda path: (path.stat().st_mtime_ns, path.name))
            for path in paths:
                _check_owner(path)
            # a file's name is for people; its bytes decide
            return {path: Bundle.from_bytes(path.read_bytes(), source=f"approved bundle {path}") for path in paths}
        except OSError as error:
            what, seen = f"approved bundle {error.filename or self.folder}", error.strerror or str(error)
            way_out = "Give this user the right to read it (chown), or remove it."
            raise DataError(explain(what, "be a file that this user can read", seen, way_out)) from error

    def find(self, content: bytes) -> Bundle | None:
        """Return the owner's copy of a bundle, or None if these very bytes are not approved."""
        wanted = sha256(content).hexdigest()
        return next((bundle for bundle in self.files().values() if bundle.sha256 == wanted), None)

    def add(self, bundle: Bundle) -> Path:
        """Approve a bundle; return its file, which all may read: the node may be another user's."""
        make_folder(self.folder)
        path = self.folder / f"{bundle.sha256}.fab"
        write_atomic(path, bundle.content).chmod(0o644)
        return path

    def remove(self, digest: str) -> Bundle:
        """Revoke the approval of the one bundle whose hash starts with ``digest``, at least 8 digits."""
        wanted = digest.lower() if len(digest) >= 8 else "-"
        found = {path: bundle for path, bundle in self.files().items() if bundle.sha256.startswith(wanted)}
        if len(found) != 1:
            rule = "be the first digits, eight or more, of one approved bundle's sha256"
            raise DataError(explain("hash", rule, digest, "`fedkd node list` shows them."))
        ((path, bundle),) = found.items()
        path.unlink()
        return bundle


def _check_owner(path: Path) -> None:
    """Refuse a file or folder that somebody else may write to: he would be the one who approves."""
    if os.name != "posix":
        return
    state = path.stat()
    if state.st_uid not in (0, os.getuid()) or stat.S_IMODE(state.st_mode) & 0o022:
        seen = f"owner {state.st_uid}, mode {stat.S_IMODE(state.st_mode):04o}"
        way_out = f"If you trust its content: chown it to this user, and chmod go-w {path}"
        raise DataError(explain(f"{path}", "be writable for its owner alone", seen, way_out))


def installed_differences(bundle: Bundle) -> list[str]:
    """Return the Python files of a bundle's ClientApp package that differ from those installed here, which will run."""
    package = bundle.client_app.partition(":")[0].partition(".")[0]
    names = [
        name for name in bundle.files if name.startswith((f"{package}/", f"{package}.py")) and name.endswith(".py")
    ]
    if not names:
        rule = f"hold the package {package} of its ClientApp {one_line(bundle.client_app)}"
        raise DataError(explain("bundle", rule, "no such files"))
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        way_out = (
            "Install the app in this environment (pip install .): the node runs the installed code, never a bundle's."
        )
        raise DataError(explain(f"package {one_line(package)}", "be installed here", "no such package", way_out))
    origin = Path(spec.origin)
    root = origin.parents[1] if origin.name == "__init__.py" else origin.parent
    return [name for name in names if not (root / name).is_file() or (root / name).read_bytes() != bundle.files[name]]
