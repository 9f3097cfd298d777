"""Pretrained text models of Hugging Face transformers as a scikit-learn style estimator that reads raw texts.

Only imported on use (extra ``text``). It keeps its weights and its optimiser's state from call to call, so FedCT
fine-tunes it over the rounds: each party its own model, of its own kind and size, and only labels meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor, nn

from fedkd_flwr.errors import Code, ConfigError, explain
from fedkd_flwr.models._batches import Batch, epochs_of, halves
from fedkd_flwr.models._net_state import optimizer_states, own_generator
from fedkd_flwr.models._text_net import TextNet, check_path, open_pretrained, rebuild

__all__ = ["TextTransformer"]

INFERENCE_ROWS = 64  # rows at once when labelling, of similar length
MAX_NORM = 1.0  # gradients are clipped to this length, as the library's own Trainer does
LEARNING_RATES = {"all": 5e-5, "head": 1e-3}
MIN_LENGTH = 8  # tokens: the special ones and a few words


class TextTransformer(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """A pretrained model fine-tuned to classify texts, over a fixed label space.

    Parameters
    ----------
    path : str
        A directory that ``save_pretrained`` wrote (model and fast tokenizer), or a name on the Hugging Face hub, which
        the library finds in its cache or downloads. Code of the model's own is never run, pickled weights are never
        read.
    num_classes : int
        Outputs. A head for another number of classes is replaced by a fresh one.
    train : {"head", "all"}
        What is trained: the classification head, or every weight. With "head" the base model is used without
        dropout, as a fixed reader of texts.
    max_length : int
        Tokens read of each text, special ones included; the rest is cut off.
    lr : float, optional
        Step size of AdamW: 1e-3 for the head, 5e-5 for everything by default. Constant, with gradients clipped to
        length 1.
    weight_decay : float
        Of AdamW.
    batch_size, epochs : int
        Of `fit`; ``batch_size`` also of `update_steps`.
    device : {"cpu", "auto"}
        ``auto`` takes a GPU if there is one.
    seed : int
        Source of a fresh head, batches and dropout. Torch's global generator is neither used nor changed.
    """

    keeps_label_space = True
    takes_text = True
    net_: TextNet
    optimizer_: torch.optim.Optimizer
    rng_state_: Tensor
    device_: torch.device

    def __init__(
        self,
        path: str = "",
        *,
        num_classes: int = 2,
        train: str = "head",
        max_length: int = 128,
        lr: float | None = None,
        weight_decay: float = 0.01,
        batch_size: int = 16,
        epochs: int = 3,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        self.path = path
        self.num_classes = num_classes
        self.train = train
        self.max_length = max_length
        self.lr = lr
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.epochs = epochs
        self.device = device
        self.seed = seed

    def validate(self) -> None:
        """Check every parameter, and that a directory holds a model; raises ConfigError naming the first at fault."""
        self.check_settings()
        check_path(self.path)

    def check_settings(self) -> None:
        """Check every parameter but the model's place, which a model from bytes does not need."""
        for name, known in (("train", ("head", "all")), ("device", ("cpu", "auto"))):
            if getattr(self, name) not in known:
                raise ConfigError(explain(name, f"be one of {', '.join(known)}", getattr(self, name)))
        least = {"num_classes": 2, "max_length": MIN_LENGTH, "batch_size": 2, "epochs": 1, "seed": 0}
        for name, minimum in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not (isinstance(value, int) and value >= minimum):
                raise ConfigError(explain(name, f"be an integer >= {minimum}", value))
        for name, positive in (("lr", True), ("weight_decay", False)):
            value = getattr(self, name)
            if name == "lr" and value is None:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool) and value < float("inf")
            if not (number and (value > 0 if positive else value >= 0)):
                raise ConfigError(explain(name, f"be a finite number {'>' if positive else '>='} 0", value))

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Start from the pretrained model and train for ``epochs`` passes.

        Parameters
        ----------
        X : ndarray of shape (num_rows, 1), objects of type str
        y : ndarray of shape (num_rows,), or (num_rows, num_classes)
            Labels, or probabilities.
        """
        self.initialize()
        tokens = self._tokens(X)
        rows, wanted = self._targets(y)
        self._train(tokens, epochs_of(rows, wanted, epochs=self.epochs, batch_size=self.batch_size))
        return self

    def fit_soft(self, X: NDArray[Any], weights: NDArray[np.floating]) -> Self:
        """`fit` on rows whose classes have weights of total 1, by soft cross-entropy."""
        return self.fit(X, weights)

    def update_steps(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        X_public: NDArray[Any] | None,
        y_public: NDArray[Any] | None,
        steps: int | None,
    ) -> Self:
        """Take ``steps`` minibatch steps from the present state, or from the pretrained model at first.

        Half of each batch (rounded up) are own rows, the rest public rows; all are own where there are none.
        """
        if not hasattr(self, "net_"):
            self.initialize()
        tokens, parts = self._tokens(X), [self._targets(y)]
        if X_public is not None and y_public is not None:
            parts.append(self._targets(y_public, first=len(tokens)))
            tokens += self._tokens(X_public)
        self._train(tokens, halves(parts, batch_size=self.batch_size, steps=steps))
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Return the most probable class of each row."""
        return np.asarray(self._logits(X).argmax(axis=1))

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probability of each class for each row, float32."""
        return torch.from_numpy(self._logits(X)).softmax(dim=1).numpy()

    def initialize(self) -> Self:
        """Load the pretrained model and start a fresh optimiser.

        Raises
        ------
        ConfigError
            If a parameter breaks its rule or the model cannot be loaded.
        """
        self.validate()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(self.seed))
            net = open_pretrained(self.path, num_classes=self.num_classes)
            rng_state = torch.get_rng_state()
        return self._mount(net, rng_state)

    def state_tensors(self, *, training_state: bool = True) -> dict[str, Tensor]:
        """Return everything by name: weights, configuration and tokenizer; for exact continuation also the
        optimiser's and the generator's states. The pretrained model's directory is not needed again.
        """  # noqa: D205 - one sentence too long for one line
        net = self.net_
        tensors = {f"model.{name}": value for name, value in net.module.state_dict().items()}
        tensors["description"] = torch.frombuffer(bytearray(net.description()), dtype=torch.uint8)
        if training_state:
            tensors["rng"] = self.rng_state_
            for index, state in self.optimizer_.state_dict()["state"].items():
                tensors |= {f"optimizer.{index}.{name}": value for name, value in state.items()}
        # clones, because tied weights share memory, which safetensors refuses
        return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        """Take over what `state_tensors` returned, after checking every name, shape and type.

        Raises
        ------
        ValueError
            If the tensors are not of one net.
        """
        weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        description = tensors["description"]
        if description.dtype != torch.uint8 or description.ndim != 1:
            raise ValueError("the description is no text")
        net = rebuild(description.numpy().tobytes(), weights, num_classes=self.num_classes)
        rng_state = tensors.get("rng", torch.Generator().manual_seed(int(self.seed)).get_state())
        torch.Generator().set_state(rng_state)  # raises unless it is a generator's state
        self._mount(net, rng_state.clone())
        rest = {k: v for k, v in tensors.items() if not k.startswith("model.") and k not in ("description", "rng")}
        groups = self.optimizer_.state_dict()["param_groups"]
        states = optimizer_states(rest, self.optimizer_.param_groups[0]["params"], {"step", "exp_avg", "exp_avg_sq"})
        self.optimizer_.load_state_dict({"state": states, "param_groups": groups})
        return self

    def _mount(self, net: TextNet, rng_state: Tensor) -> Self:
        positions = net.positions
        if positions is not None and not self.max_length <= positions:
            raise ConfigError(explain("max_length", f"be at most the model's {positions} positions", self.max_length))
        self.device_ = torch.device("cuda" if self.device == "auto" and torch.cuda.is_available() else "cpu")
        net.tokenizer.no_padding()
        net.tokenizer.enable_truncation(max_length=self.max_length)
        net.module.to(self.device_)
        trained = {name for name, _ in net.module.named_parameters()} if self.train == "all" else set(net.head)
        if not trained:
            way_out = 'Use train = "all".'
            raise ConfigError(explain("the model", "have a head outside its base model", "none", way_out))
        for name, parameter in net.module.named_parameters():
            parameter.requires_grad_(name in trained)
        self.optimizer_ = torch.optim.AdamW(
            [parameter for parameter in net.module.parameters() if parameter.requires_grad],
            lr=self.lr or LEARNING_RATES[self.train],
            weight_decay=self.weight_decay,
            fused=True,
        )
        self.net_, self.rng_state_ = net, rng_state
        self.classes_ = np.arange(self.num_classes)
        self.n_features_in_ = 1
        return self

    def _train(self, tokens: list[list[int]], batches: Iterator[Batch]) -> None:
        module = self.net_.module.train()
        if self.train == "head":
            module.base_model.eval()
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        loss = torch.zeros(())
        with own_generator(self, self.device_):
            for rows, wanted in batches:
                self.optimizer_.zero_grad()
                logits = self._forward([tokens[row] for row in rows.tolist()])
                loss = nn.functional.cross_entropy(logits, wanted.to(self.device_))
                loss.backward()  # type: ignore[no-untyped-call]  # torch
                loss = loss.detach()
                nn.utils.clip_grad_norm_(trained, MAX_NORM)
                self.optimizer_.step()
        self.optimizer_.zero_grad()
        if not bool(torch.isfinite(loss)):
            seen = f"lr={self.lr or LEARNING_RATES[self.train]} with loss {float(loss)}"
            message = explain("Training", "keep the loss finite", seen, "Lower lr.")
            raise ConfigError(message, code=Code.WRONG_DATA)  # the rows have a say in it

    def _logits(self, X: NDArray[Any]) -> NDArray[np.float32]:
        tokens, logits = self._tokens(X), np.zeros((len(X), self.num_classes), dtype=np.float32)
        self.net_.module.eval()
        order = np.argsort([len(row) for row in tokens], kind="stable")  # rows of one length waste no padding
        with torch.inference_mode():
            for start in range(0, len(order), INFERENCE_ROWS):
                rows = order[start : start + INFERENCE_ROWS]
                logits[rows] = self._forward([tokens[row] for row in rows]).cpu().numpy()
        return logits

    def _forward(self, tokens: list[list[int]]) -> Tensor:
        length = max(len(row) for row in tokens)
        ids = torch.full((len(tokens), length), self.net_.pad)
        mask = torch.zeros((len(tokens), length), dtype=torch.int64)
        for i, row in enumerate(tokens):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        logits: Tensor = self.net_.module(
            input_ids=ids.to(self.device_), attention_mask=mask.to(self.device_)
        ).logits.float()
        return logits

    def _tokens(self, X: NDArray[Any]) -> list[list[int]]:
        """Return each row's tokens; a text without any (as some tokenizers make of an empty one) is one padding."""
        tokens = [found.ids or [self.net_.pad] for found in self.net_.tokenizer.encode_batch([row[0] for row in X])]
        known = self.net_.module.get_input_embeddings().num_embeddings
        if (largest := max(map(max, tokens), default=0)) >= known:
            way_out = "Do model and tokenizer belong together?"
            message = explain("The tokenizer", f"give tokens below the model's {known}", largest, way_out)
            raise ConfigError(message, code=Code.WRONG_DATA)
        return tokens

    def _targets(self, y: NDArray[Any], *, first: int = 0) -> Batch:
        kind = np.int64 if np.asarray(y).dtype.kind in "iu" else np.float32
        return torch.arange(first, first + len(y)), torch.from_numpy(np.array(y, dtype=kind))
