"""What of a run's record may be published: the parts that need no whole record."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

__all__ = ["WITHHELD", "covered_side", "publishable_claims", "without_folder"]

WITHHELD = "withheld"  # replaces a text or a number of the operator's record in a publishable copy

# These fields of a claim are published even where its numbers are not.
_STATEMENT = ("unit", "adversary", "publishable", "basis", "protects from", "not covered")
_FOLDER = re.compile(r"(?:^|(?<=[\s\"'=(]))(?:~|/|[A-Za-z]:[\\/]|\\\\|file:).*[\\/]")


def covered_side(claims: list[dict[str, Any]]) -> Literal["", "server", "party"]:
    """Return where noise with a proven and publishable claim is added, as `RunRecord.covered`."""
    sides = set()
    for claim in claims:
        epsilon = claim.get("epsilon")
        finite = isinstance(epsilon, int | float) and not isinstance(epsilon, bool) and math.isfinite(epsilon)
        if claim.get("publishable") is True and claim.get("basis") == "proven" and finite:
            sides.add("party" if claim.get("adversary") == "server" else "server")
    return "party" if "party" in sides else "server" if sides else ""


def publishable_claims(claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the claims as `RunRecord.publishable` describes."""
    public = [claim for claim in claims if claim.get("publishable") is True]
    said = {(claim.get("unit"), claim.get("adversary")) for claim in public}
    kept = []
    for claim in claims:
        if claim in public:
            kept.append(dict(claim))
        elif (claim.get("unit"), claim.get("adversary")) not in said:
            kept.append({key: value if key in _STATEMENT else WITHHELD for key, value in claim.items()})
    return kept


def without_folder(value: Any) -> Any:
    """Return text with each path replaced by its last part. Anything but text is returned unchanged.

    >>> without_folder("/home/ann/data/adult.csv"), without_folder("qualified-majority")
    ('adult.csv', 'qualified-majority')
    >>> without_folder("random-forest ~/runs/7/model.skops")
    'random-forest model.skops'
    """
    return _FOLDER.sub("", value) if isinstance(value, str) else value
