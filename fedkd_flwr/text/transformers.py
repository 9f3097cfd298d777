"""Pretrained text models of Hugging Face transformers as a scikit-learn style estimator that reads raw texts.

Only imported on use (extra ``text``). The estimator keeps its weights and its optimiser's state from call to call, so
FedCT can fine-tune it over the rounds. Parties may have models of different kinds and sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedkd_flwr.checks import check_choice, check_number, check_whole
from fedkd_flwr.errors import Code, ConfigError, explain
from fedkd_flwr.models._net_parts import (
    Batch,
    NetEstimator,
    as_targets,
    check_loss,
    epochs_of,
    halves,
    load_optimizer,
    split_weights,
)
from fedkd_flwr.text.net import TextNet, check_path, open_pretrained, rebuild

__all__ = ["TextTransformer"]

INFERENCE_ROWS = 64  # rows of similar length that are labelled at once
MAX_NORM = 1.0  # gradients are clipped to this length, as in the library's Trainer
LEARNING_RATES = {"all": 5e-5, "head": 1e-3}
MIN_LENGTH = 8  # tokens: the special ones and a few words


@dataclass(kw_only=True, eq=False, repr=False)
class TextTransformer(NetEstimator):
    """A pretrained model fine-tuned to classify texts, over a fixed label space.

    Code that comes with a model is never run, and pickled weights are never read. Gradients are clipped to length 1.
    Torch's global generator is neither used nor changed.
    """

    # a directory that ``save_pretrained`` wrote (model and fast tokenizer), or a name on the Hugging Face hub, which
    # the library finds in its cache or downloads
    path: str = field(default="", kw_only=False)
    num_classes: int = 2  # outputs; a head with another number is replaced by a fresh one
    train: str = "head"  # or "all" weights; with "head" the base model does not change and has no dropout
    max_length: int = 128  # tokens read of each text, special ones included; further ones are cut off
    lr: float | None = None  # step size of AdamW, constant; by default 1e-3 for the head and 5e-5 for all weights
    weight_decay: float = 0.01  # of AdamW
    batch_size: int = 16  # rows per minibatch
    epochs: int = 3  # passes of `fit`
    device: str = "cpu"  # "auto" uses a GPU if there is one
    seed: int = 0  # of a fresh head, of batches and dropout

    takes_text = True

    def validate(self) -> None:
        """Check every parameter, and that a directory holds a model; raise ConfigError naming the first wrong one."""
        self.check_settings()
        check_path(self.path)

    def check_settings(self) -> None:
        """Check every parameter except ``path``, which a model from bytes does not need."""
        check_choice("train", self.train, ("head", "all"))
        check_choice("device", self.device, ("cpu", "auto"))
        check_whole("num_classes", self.num_classes, 2)
        check_whole("max_length", self.max_length, MIN_LENGTH)
        check_whole("batch_size", self.batch_size, 2)
        check_whole("epochs", self.epochs, 1)
        check_whole("seed", self.seed)
        if self.lr is not None:
            check_number("lr", self.lr, above=0)
        check_number("weight_decay", self.weight_decay, least=0)

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Start from the pretrained model and train for ``epochs`` passes; rows are texts, (num_rows, 1)."""
        self.initialize()
        tokens = self._tokens(X)
        rows, wanted = self._targets(y)
        self._train(tokens, epochs_of(rows, wanted, epochs=self.epochs, batch_size=self.batch_size))
        return self

    def steps_of_fit(self, num_rows: int) -> int:
        """Return the minibatch steps that `fit` takes over so many rows."""
        return self.epochs * max(-(-num_rows // self.batch_size), 1)

    def update_steps(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        X_public: NDArray[Any] | None,
        y_public: NDArray[Any] | None,
        steps: int | None,
    ) -> Self:
        """Do what `TorchNet.update_steps` does, the first time from the pretrained model."""
        if not hasattr(self, "net_"):
            self.initialize()
        tokens, parts = self._tokens(X), [self._targets(y)]
        if X_public is not None and y_public is not None and len(X_public):
            parts.append(self._targets(y_public, first=len(tokens)))
            tokens += self._tokens(X_public)
        self._train(tokens, halves(parts, batch_size=self.batch_size, steps=steps))
        return self

    def initialize(self) -> Self:
        """Load the pretrained model and start a fresh optimiser; raise ConfigError if it cannot be loaded."""
        self.validate()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(self.seed))
            net = open_pretrained(self.path, num_classes=self.num_classes)
            rng_state = torch.get_rng_state()
        return self._mount(net, rng_state)

    def state_tensors(self, *, training_state: bool = True) -> dict[str, Tensor]:
        """Do what `TorchNet.state_tensors` does, with configuration and tokenizer: the folder is not needed again."""
        tensors = self._named_state(self.net_.module, self.optimizer_, training_state)
        return tensors | {"description": torch.frombuffer(bytearray(self.net_.description()), dtype=torch.uint8)}

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        """Restore what `state_tensors` returned, after checking every name, shape and type, or raise ValueError."""
        weights, rest = split_weights(tensors)
        description = rest.pop("description")
        if description.dtype != torch.uint8 or description.ndim != 1:
            raise ValueError("the description is no text")
        net = rebuild(description.numpy().tobytes(), weights, num_classes=self.num_classes)
        rng_state = rest.pop("rng", torch.Generator().manual_seed(int(self.seed)).get_state())
        torch.Generator().set_state(rng_state)  # raises unless it is a generator's state
        self._mount(net, rng_state.clone())
        load_optimizer(self.optimizer_, rest)
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
        with self._own_generator(self.device_):
            for rows, wanted in batches:
                self.optimizer_.zero_grad()
                logits = self._forward([tokens[row] for row in rows.tolist()])
                loss = nn.functional.cross_entropy(logits, wanted.to(self.device_))
                loss.backward()
                loss = loss.detach()
                nn.utils.clip_grad_norm_(trained, MAX_NORM)
                self.optimizer_.step()
        self.optimizer_.zero_grad()
        check_loss(loss, self.lr or LEARNING_RATES[self.train], "Lower lr.")

    def logits(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Return the outputs for each row, (num_rows, num_classes), float32."""
        tokens, logits = self._tokens(X), np.zeros((len(X), self.num_classes), dtype=np.float32)
        self.net_.module.eval()
        order = np.argsort([len(row) for row in tokens], kind="stable")  # rows of similar length need little padding
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
        """Return each row's tokens; a text without tokens, such as an empty one, becomes one padding token."""
        tokens = [found.ids or [self.net_.pad] for found in self.net_.tokenizer.encode_batch([row[0] for row in X])]
        known = self.net_.module.get_input_embeddings().num_embeddings
        if (largest := max(map(max, tokens), default=0)) >= known:
            way_out = "Do model and tokenizer belong together?"
            message = explain("The tokenizer", f"give tokens below the model's {known}", largest, way_out)
            raise ConfigError(message, code=Code.WRONG_DATA)
        return tokens

    def _targets(self, y: NDArray[Any], *, first: int = 0) -> Batch:
        return torch.arange(first, first + len(y)), as_targets(y)
