"""How a party refuses: a code from a fixed list leaves, and the text stays in its own log.

Beside a claim not even a code that private rows may decide leaves.
"""

from __future__ import annotations

import errno
import logging
import traceback
from collections.abc import Mapping
from typing import Any

from flwr.client import NumPyClient
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import kebab
from fedkd_flwr.clients.exchange import PartyExchange
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.party import OPEN, Ask, Door, Party
from fedkd_flwr.errors import TELLING, Code, FedkdError, RefusalError, cause, explain
from fedkd_flwr.wire.records import WIRE_VERSION, Scalar

logger = logging.getLogger("flwr.party")

_MAX_TEXT = 4000  # characters of an error in the log, which may quote what the server sent


class RefusingClient(NumPyClient):
    """Stands in for a party that could not even be set up: answers each instruction with a code.

    The error's text goes to the party's log only. ``withheld``: the party demands privacy, and not even a code that
    depends on private rows leaves. A ``simulated`` party's reply says the cause. ``door`` hears that a code left.
    """

    def __init__(
        self, party: str, error: Exception, *, withheld: bool = False, simulated: bool = False, door: Door = OPEN
    ) -> None:
        self.party, self.error, self.withheld, self.simulated = party, error, withheld, simulated
        self.door = door

    def fit(self, parameters: Any, config: Any) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        """Refuse."""
        return [], 0, self._refusal(config)

    def evaluate(self, parameters: Any, config: Any) -> tuple[float, int, dict[str, Scalar]]:
        """Refuse."""
        return float("nan"), 0, self._refusal(config)

    def ready(self, config: Any) -> dict[str, Scalar]:
        """Say why this party is not ready; nothing of it where private rows may be the cause beside a claim."""
        said = self._refusal(config)
        return said if said["code"] != Code.WITHHELD else signed(self.party)

    def _refusal(self, config: Any) -> dict[str, Scalar]:
        asked = config.get("privacy") if isinstance(config, Mapping) else None
        code = code_of(self.error, withheld=self.withheld or asked == "party")
        return refusal(self.party, self.error, code, simulated=self.simulated, door=self.door)


def signed(party: str, **values: Scalar) -> dict[str, Scalar]:
    """Return what every reply says of its sender, and these values."""
    return {"party": party, "wire-version": WIRE_VERSION, **values}


def told_cause(error: Exception, simulated: bool) -> dict[str, Scalar]:
    """Return what a simulated party's reply says of a failure; nothing of a silo's, which only its own log knows."""
    return {"failure": cause(error)} if simulated else {}


def code_of(error: Exception, *, withheld: bool) -> Code:
    """Return the code that leaves for an error."""
    code = error.code if isinstance(error, FedkdError) else Code.INTERNAL
    return Code.WITHHELD if withheld and code in TELLING else code


def refusal(
    party: str, error: Exception, code: Code, *, simulated: bool = False, door: Door = OPEN
) -> dict[str, Scalar]:
    """Return a refusal, and tell this party's own logs of it."""
    door.refused(str(code))
    text = _told(error)
    if len(text) > _MAX_TEXT:
        text = f"{text[: _MAX_TEXT // 2]} [...] {text[-_MAX_TEXT // 2 :]}"
    why = error.code if isinstance(error, FedkdError) else code
    logger.error("%s leaves this round out: %s: %s", party, why, text)
    return signed(party, code=str(code), **told_cause(error, simulated))


def _told(error: Exception) -> str:
    """Return an error's text: a sentence where a machine without room is the cause, else where it arose."""
    if isinstance(error, FedkdError):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        kept = "Nothing left. What was charged stays charged, and its reply is sent when it is asked for again."
        return explain("disk of this party", "have room for its state", cause(error), f"Make room. {kept}")
    if isinstance(error, MemoryError):
        return explain("memory of this party", "hold its rows and its model", cause(error), "Give the node more.")
    return "".join(traceback.format_exception(error))


def require_claim(party: Party, private: bool) -> None:
    """Refuse a run without a mechanism at this party, where its owner demands one."""
    if party.demands_privacy and not private:
        way_out = "Choose a run with noise at the party, or lift require-privacy and epsilon-budget here."
        message = explain("privacy", f"be claimed at {party.name}", "none", way_out)
        raise RefusalError(message, code=Code.PRIVACY_REQUIRED)


def obey(exchange: PartyExchange, instruction: Instruction, charge: Charge | None, *, final: bool) -> None:
    """Let the site's rules refuse before anything is learnt; in the final visit nothing is left to refuse."""
    party, name, config = exchange.party, exchange.card.name, instruction.config
    told = config.told()
    known = {key: told[kebab(field)] for field, key in config.keys().items() if kebab(field) in told}
    if final:
        party.door.before_rows(Ask(server_round="final", algorithm=name, told=known))
        return
    party.door.before_rows(
        Ask(
            server_round=instruction.server_round,
            algorithm=name,
            told=known,
            claim=None if charge is None else charge.words,
            events=None if charge is None else charge.events,
            public=party.public.fingerprint,
            least=exchange.asks(instruction),
        )
    )


def note_no_noise(party: Party, algorithm: str) -> None:
    """Note, before it leaves, that a reply of this run has no noise: a budget set later will know of it."""
    if not party.simulated:  # a simulation's ledgers are its own
        party.ledger.note_no_noise(run_id=party.run_id, algorithm=algorithm)
