"""Write the page of a run record again: ``python -m fedkd_flwr.report RECORD.json``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fedkd_flwr.errors import DataError
from fedkd_flwr.report.page import write_page
from fedkd_flwr.run_record import RunRecord

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write one page and print its absolute path.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line without the program's name; ``sys.argv`` where none is given.

    Returns
    -------
    int
        0, or 2 where the record cannot be read or the page cannot be written (the reason is on stderr).
    """
    parser = argparse.ArgumentParser(
        prog="python -m fedkd_flwr.report",
        description="Write the page of a federation's run from its record.json.",
    )
    parser.add_argument("record", type=Path, metavar="RECORD.json", help="the run's record")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the page to write (default: report.html beside the record; with --publishable, report-publishable.html)",
    )
    parser.add_argument(
        "--publishable",
        action="store_true",
        help="leave out what was computed from un-noised votes or private rows",
    )
    options = parser.parse_args(arguments)
    name = "report-publishable.html" if options.publishable else "report.html"
    out = options.out or options.record.parent / name
    try:
        page = write_page(RunRecord.load(options.record), out, publishable=options.publishable)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: cannot write {out}: {error.strerror or error}. Choose another --out.", file=sys.stderr)
        return 2
    print(page.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
