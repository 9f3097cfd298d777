"""Our strategies in Flower's old API: projects with ``start_server`` or ``ServerAppComponents(strategy=...)``.

    initialize_parameters   wait for the clients                                 (ExchangeStrategy.prepare)
    configure_fit           what the last round left -> FitIns for each client   (configure_train)
    aggregate_fit           FitRes, failures -> combine                          (aggregate_train)
    evaluate                the accuracy of the server's model, where it has one
    last round only:        configure_evaluate, aggregate_evaluate; then record and claims are closed  (conclude)

Nothing is decided here: each step puts the old API's types into the records that the strategy reads, and back. A
client is a node to it; its number is the client's ``cid`` where that is one, as on a SuperLink, else a digest of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from logging import WARN
from types import SimpleNamespace
from typing import Any, cast

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes, Parameters, log
from flwr.common import Scalar as FlowerScalar
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy
from flwr.serverapp import Grid

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.strategies.loop import ExchangeStrategy
from fedkd_flwr.wire.records import reply_record

__all__ = ["LegacyStrategy", "node_of"]

_Metrics = dict[str, FlowerScalar]
_FitFailures = Sequence[tuple[ClientProxy, FitRes] | BaseException]
_EvaluateFailures = Sequence[tuple[ClientProxy, EvaluateRes] | BaseException]


class LegacyStrategy(Strategy):
    """Wraps one of this package's strategies as a ``flwr.server.strategy.Strategy``.

    Parameters
    ----------
    strategy : ExchangeStrategy
        Any but those whose parties send weights: Flower's old API has strategies of its own for that.
    num_rounds : int
        The ``num_rounds`` of the project's ``ServerConfig``, which the old API does not tell a strategy (plus the
        rounds of an earlier run that the strategy continues, as in ``start``). After this round the final result goes
        out; rounds beyond it ask for nothing. If the project runs fewer, the parties never get a final result and the
        record says ``running``.
    when_done : callable, optional
        ``when_done(strategy)`` is called once, when the run has ended or failed and ``strategy.record`` is complete:
        behind a ``server_fn`` there is no other place to keep it from.

    Raises `ConfigError` if the strategy cannot be wrapped, has run already, or cannot run so many rounds.

    Clients are waited for as everywhere in this package: ``min_available_nodes`` of the strategy, or until their
    number is stable, up to its deadline. An error of a strategy's ends the project's run, as Flower passes it on.
    """

    def __init__(
        self,
        strategy: ExchangeStrategy,
        *,
        num_rounds: int,
        when_done: Callable[[ExchangeStrategy], None] | None = None,
    ) -> None:
        if not isinstance(strategy, ExchangeStrategy) or strategy.exchange.card.sends in ("weights", "trees"):
            way_out = "Use flwr.server.strategy.FedProx in such a project, or a ServerApp of the present API."
            rule = "be one of this package's that exchange labels or probabilities"
            raise ConfigError(explain("strategy", rule, type(strategy).__name__, way_out))
        strategy.check_rounds(num_rounds)
        at = strategy.exchange
        if at.finished_round is not None or at.rounds_done >= num_rounds:
            way_out = "Only its final result was lost: continue it in a ServerApp of the present API."
            raise ConfigError(explain("num_rounds", f"be above {at.rounds_done}", num_rounds, way_out))
        strategy.messages.envelope = _message
        self.strategy = strategy
        self.num_rounds, self.when_done = num_rounds, when_done
        self._prepared = self._ended = False

    # ---------------------------------------------------------------- Flower's loop

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters:
        """Wait for the clients; return no arrays: what travels first is the strategy's own."""
        self._prepare(client_manager)
        return _parameters(ArrayRecord())

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Send what the last round left to the chosen clients."""
        self._prepare(client_manager)
        if self._ended:
            if server_round + self.strategy.exchange.rounds_done > self.num_rounds:
                text = "nothing left to do: ServerConfig(num_rounds=...) is above the %d of LegacyStrategy"
                log(WARN, text, self.num_rounds)
            return []
        grid, by_node = _clients(client_manager)
        with self._closed_on_error():
            messages = self.strategy.configure_train(server_round, ArrayRecord(), ConfigRecord(), grid)
            asked = [(by_node[one.metadata.dst_node_id], FitIns(*_contents(one))) for one in messages]
            if not asked and self.strategy.exchange.finished_round is None:
                self.strategy.aggregate_train(server_round, [])  # fails, and names them: Flower would go on without
        return asked

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures: _FitFailures
    ) -> tuple[Parameters | None, _Metrics]:
        """Open each reply, leave bad ones out with a reason, and combine the others."""
        with self._closed_on_error():
            arrays, metrics = self.strategy.aggregate_train(server_round, _replies(results, failures))
        return None if arrays is None else _parameters(arrays), cast(_Metrics, dict(metrics or {}))

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        """Send the final result after the last round; nothing before it."""
        if self._ended:
            return []
        grid, by_node = _clients(client_manager)
        with self._closed_on_error():
            messages = self.strategy.configure_evaluate(server_round, ArrayRecord(), ConfigRecord(), grid)
            asked = [(by_node[one.metadata.dst_node_id], EvaluateIns(*_contents(one))) for one in messages]
        if not asked and server_round + self.strategy.exchange.rounds_done == self.strategy.last_round:
            self._end()  # nobody is left to be told: Flower will not ask for the aggregate
        return asked

    def aggregate_evaluate(
        self, server_round: int, results: list[tuple[ClientProxy, EvaluateRes]], failures: _EvaluateFailures
    ) -> tuple[float | None, _Metrics]:
        """Write down what the parties report, and close the run; the loss is their mean error, where they share it."""
        if self._ended:
            return None, {}
        with self._closed_on_error():
            record = self.strategy.aggregate_evaluate(server_round, _replies(results, failures))
        self._end()
        metrics = cast(_Metrics, dict(record or {}))
        accuracy = metrics.get("federated-common", metrics.get("federated-own"))
        return 1.0 - accuracy if isinstance(accuracy, float) else None, metrics

    def evaluate(self, server_round: int, parameters: Parameters) -> tuple[float, _Metrics] | None:
        """Return error and accuracy of the server's model on its test rows, where it has both."""
        accuracy = self.strategy.record.server_accuracy
        return None if accuracy is None else (1.0 - accuracy, {"accuracy": accuracy})

    # ---------------------------------------------------------------- inside

    def _prepare(self, client_manager: ClientManager) -> None:
        if self._prepared:
            return
        self._prepared = True
        with self._closed_on_error():
            self.strategy.prepare(_clients(client_manager)[0], self.num_rounds)
            self.strategy.summary()

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._end(error)
            raise

    def _end(self, error: BaseException | None = None) -> None:
        if self._ended:
            return
        self._ended = True
        self.strategy.conclude(error or self.strategy.fell_short)
        if self.when_done is not None:
            self.when_done(self.strategy)


def node_of(client: ClientProxy) -> int:
    """Return the number a client has in a run's record: always the same for the same ``cid``."""
    if client.cid.isdecimal():
        return int(client.cid)
    return int.from_bytes(hashlib.sha256(client.cid.encode()).digest()[:8], "big")


def _clients(manager: ClientManager) -> tuple[Grid, dict[int, ClientProxy]]:
    """Return a stand-in for a Grid, of which a strategy asks no more than who is there, and the clients by node."""
    by_node: dict[int, ClientProxy] = {}

    def get_node_ids() -> list[int]:
        by_node.clear()
        by_node.update((node_of(client), client) for client in dict(manager.all()).values())  # clients come and go
        return list(by_node)

    return cast(Grid, SimpleNamespace(get_node_ids=get_node_ids)), by_node


def _message(content: RecordDict, *, source: int = 0, error: Error | None = None, **address: Any) -> Message:
    """Return a message without the task that Flower makes others in: the old API has none."""
    about: dict[str, Any] = {"dst_node_id": 0, "message_type": "train", "group_id": "", **address}
    about |= {"run_id": 0, "message_id": "", "reply_to_message_id": "", "created_at": 0.0, "ttl": 0.0}
    metadata = Metadata(src_node_id=source, **about)
    return make_message(metadata, content=None if error else content, error=error)


def _contents(message: Message) -> tuple[Parameters, _Metrics]:
    record = message.content.array_records["arrays"]
    names = {"payload": ",".join(record)} if record else {}
    return _parameters(record), cast(_Metrics, {**message.content.config_records["config"], **names})


def _parameters(arrays: ArrayRecord) -> Parameters:
    # the same bytes, not copies: what all clients get is held once
    return Parameters(tensors=[array.data for array in arrays.values()], tensor_type="numpy.ndarray")


def _replies(
    results: Sequence[tuple[ClientProxy, Any]],
    failures: Sequence[tuple[ClientProxy, Any] | BaseException],
) -> list[Message]:
    """Return the replies as a strategy reads them; a client whose call raised is none of them, and counts as silent."""
    replies = [_message(_content(result), source=node_of(client)) for client, result in results]
    for failure in failures:
        if isinstance(failure, BaseException):
            log(WARN, "a client gave no reply: %s", type(failure).__name__)  # its text may hold private values
            continue
        crashed = Error(code=0, reason=f"status {failure[1].status.code}")
        replies.append(_message(RecordDict(), source=node_of(failure[0]), error=crashed))
    return replies


def _content(result: FitRes | EvaluateRes) -> RecordDict:
    try:
        if isinstance(result, EvaluateRes):
            return reply_record([], result.num_examples, result.metrics, loss=result.loss)
        sent = result.parameters
        arrays = [Array(dtype="", shape=(), stype=sent.tensor_type, data=tensor) for tensor in sent.tensors]
        return reply_record(arrays, result.num_examples, result.metrics)
    except Exception:  # values of types no record takes: an empty one is left out by the door, with a code
        return RecordDict()
