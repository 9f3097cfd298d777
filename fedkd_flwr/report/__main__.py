"""The command that writes pages: ``python -m fedkd_flwr.report RECORD.json`` writes the page of a run.

``python -m fedkd_flwr.report sweep RESULTS.json`` writes the page of a sweep (``benchmarks/sweep.py``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fedkd_flwr.errors import DataError
from fedkd_flwr.report.page import write_page
from fedkd_flwr.report.sweep import Sweep
from fedkd_flwr.report.sweep_page import write_sweep_page
from fedkd_flwr.run_record import RunRecord

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write one page and print its absolute path.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line without the program's name; by default that of ``sys.argv``.

    Returns
    -------
    int
        0, or 2 if the record cannot be read or the page cannot be written; stderr then gives the reason.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["sweep"]:
        return _sweep(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m fedkd_flwr.report",
        description="Write the page of a federation's run from its record.json. "
        "For a sweep's results: python -m fedkd_flwr.report sweep RESULTS.json",
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
        help="leave out what was computed from private rows or from votes without noise",
    )
    options = parser.parse_args(given)
    name = "report-publishable.html" if options.publishable else "report.html"
    out = options.out or options.record.parent / name
    return _written(out, lambda: write_page(RunRecord.load(options.record), out, publishable=options.publishable))


def _sweep(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fedkd_flwr.report sweep", description="Write the page of a sweep: accuracy against epsilon."
    )
    parser.add_argument("results", type=Path, metavar="RESULTS.json", help="what benchmarks/sweep.py --out wrote")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page to write (default: beside the results)")
    options = parser.parse_args(arguments)
    out = options.out or options.results.with_suffix(".html")
    return _written(out, lambda: write_sweep_page(Sweep.load(options.results), out))


def _written(out: Path, write: Callable[[], Path]) -> int:
    """Call ``write``, print the page's absolute path and return 0; on an error print the reason and return 2."""
    try:
        page = write()
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
