"""Writing files so that they survive a crash: whole or not at all, for their owner alone; JSON, arrays and CSV in them.

A small JSON file has a field ``seal``, a digest of its other fields (`write_sealed`): a changed digit is not believed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # commands start without it
    from numpy.typing import NDArray

__all__ = ["HOME", "as_shown", "canonical", "digest_of", "disk_not_awaited", "for_spreadsheets", "group_of", "grouped"]
__all__ += ["make_folder", "packed", "read_sealed", "sealed", "unpacked", "unsealed", "without_nan", "write_atomic"]
__all__ += ["write_sealed"]

HOME = Path(os.environ["FEDKD_HOME"]).expanduser().absolute() if os.environ.get("FEDKD_HOME") else Path("~/.fedkd")
"""The folder of what is kept for a user: runs, states of parties, approved bundles, and the key of model files."""

durable = True
"""Whether a file survives a power cut, and not only the end of its writer. The processes of a simulation turn it off:
its run can be started again, and most of the time that a small file takes is waiting for the disk."""


@contextlib.contextmanager
def disk_not_awaited() -> Iterator[None]:
    """Write files of a simulation in this process, as its own processes do: see `durable`."""
    global durable
    before, durable = durable, False
    try:
        yield
    finally:
        durable = before


def write_sealed(path: Path, values: Mapping[str, Any]) -> Path:
    """Replace a file by plain values with their digest, as `write_atomic` does."""
    return write_atomic(path, sealed(values))


def read_sealed(path: Path) -> dict[str, Any]:
    """Return what `write_sealed` wrote; raises `OSError`, or `ValueError` where anything in it was changed."""
    return unsealed(path.read_bytes())


def write_atomic(path: str | os.PathLike[str], data: bytes) -> Path:
    """Replace a file in one step: a reader sees the old file or the whole new one. Mode 0600.

    When it returns, bytes and name are on the disk and survive a power cut if `durable` (on systems that can sync a
    folder). Missing folders are made. Raises `OSError` if the file cannot be written; the old one is then still there.
    A process that is killed meanwhile leaves a hidden file, ``.NAME.*.part``, which nobody reads.
    """
    path = Path(path)
    make_folder(path.parent)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:  # in its words the file that was asked for, and not the one beside it
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            _sync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)
    return path


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, for their owner alone; sync each: a file is lost with the folder that holds it.

    Where a desktop sets ``XDG_STATE_HOME``, ``~/.fedkd`` is a link to a folder there: a service without the variable
    finds the same ledgers by it.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        desktop = Path(os.environ.get("XDG_STATE_HOME", "")) / "fedkd"
        if desktop.is_absolute() and folder == Path("~/.fedkd").expanduser():
            make_folder(desktop)
            with contextlib.suppress(FileExistsError):  # made by another process, or left by a folder that is gone
                folder.symlink_to(desktop, target_is_directory=True)
        else:
            folder.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk; do nothing on systems that cannot (Windows, some network disks)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows cannot open a folder, and elsewhere a folder may be writable but not readable
        return
    try:
        _sync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def _sync(handle: int) -> None:
    if durable:
        os.fsync(handle)


# --------------------------------------------- values as JSON holds them: finite, canonical, with a digest


def without_nan(value: Any) -> Any:
    """Return a value in which NaN and infinity, however deep in it, are None; dataclasses become dictionaries.

    >>> without_nan({"a": [1.0, float("inf")], "b": (float("nan"), "x")})
    {'a': [1.0, None], 'b': [None, 'x']}
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0.0 else None
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    if is_dataclass(value):  # `asdict` copies each leaf, which takes longer than all the rest
        return {name: without_nan(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def canonical(value: object) -> bytes:
    """Return plain JSON with finite numbers as the same bytes on every machine; raises `ValueError` or `TypeError`."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest_of(*parts: bytes) -> str:
    """Return the digest by which a change of any of these bytes is noticed, 32 hexadecimal digits."""
    return blake2b(b"\n".join(parts), digest_size=16).hexdigest()


def sealed(values: Mapping[str, Any]) -> bytes:
    """Return plain values as one line of JSON with their digest.

    >>> unsealed(sealed({"asked": 3}))
    {'asked': 3}
    """
    return canonical({**values, "seal": digest_of(canonical(dict(values)))}) + b"\n"


def unsealed(data: bytes) -> dict[str, Any]:
    """Return what was `sealed`; raises `ValueError` for anything else, also where one digit was changed."""
    try:
        values = json.loads(data)
        digest = values.pop("seal")
        right = digest_of(canonical(values))
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise ValueError(f"this: {type(error).__name__}: {error}") from error
    if digest != right:
        raise ValueError("other content than its digest was made of: it was changed or damaged")
    return dict(values)


# ----------- arrays and values in one archive of NumPy's format: reading it runs no code, a changed byte is noticed


def packed(arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> bytes:
    """Return arrays and plain JSON values as bytes, always the same; raises `ValueError` for Python objects."""
    import numpy as np

    # the names are in the values, because the list of an archive's members has no checksum
    text = json.dumps({"arrays": list(arrays), "values": dict(values)}).encode()
    named: Any = {f"array.{i}": array for i, array in enumerate(arrays.values())}
    np.savez(buffer := BytesIO(), allow_pickle=False, meta=np.frombuffer(text, dtype=np.uint8), **named)
    return buffer.getvalue()


def grouped(**groups: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of several groups under ``group.name``."""
    return {f"{group}.{name}": array for group, arrays in groups.items() for name, array in arrays.items()}


def group_of(arrays: Mapping[str, NDArray[Any]], group: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of one group that `grouped` made.

    >>> group_of({"kept.a.b": "zeros", "value.c": "ones"}, "value")
    {'c': 'ones'}
    """
    return {n.removeprefix(f"{group}."): array for n, array in arrays.items() if n.startswith(f"{group}.")}


def unpacked(data: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return what was `packed`; raises `ValueError` for anything else."""
    import numpy as np

    try:
        with np.load(BytesIO(data), allow_pickle=False) as file:
            text = json.loads(file["meta"].tobytes())
            return {name: file[f"array.{i}"] for i, name in enumerate(text["arrays"])}, dict(text["values"])
    except Exception as error:  # a damaged archive may raise anything
        raise ValueError(str(error) or type(error).__name__) from error


# ------------------- cells of CSV files that a spreadsheet shows and does not compute: texts come from others, too


def for_spreadsheets(table: Iterable[Sequence[object]]) -> Iterator[list[object]]:
    """Yield the rows of a table for a CSV file that a person may open in a spreadsheet.

    >>> list(for_spreadsheets([["=1+1", "-1.5", -2, "red"]]))
    [["'=1+1", '-1.5', -2, 'red']]
    """
    for row in table:
        yield [as_shown(one) for one in row]


def as_shown(cell: object) -> object:
    """Return a cell as it is, but a text that a spreadsheet would compute with an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def _is_formula(text: str) -> bool:
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False
