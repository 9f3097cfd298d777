"""A pretrained text model as module, tokenizer and plain tensors: loading it, and rebuilding it from bytes.

Only imported on use. Two settings could make the library fetch and run code: a model's own Python files
(``trust_remote_code``, which is off), and a configuration whose attention implementation names a repository of kernels
(we name the implementation ourselves). Weights are read from safetensors only, though the library can read pickles.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from torch import Tensor, nn

from fedkd_flwr.errors import Code, ConfigError, explain
from fedkd_flwr.models._net_parts import check_weights

__all__ = ["TextNet", "check_path", "open_pretrained", "rebuild"]

logger = logging.getLogger("flwr.party")

WAY_OUT = "Write one with save_pretrained of a transformers model and of its fast tokenizer."


@dataclass(frozen=True, kw_only=True)
class TextNet:
    """A model and its tokenizer."""

    module: Any  # one of the library's classes ``...ForSequenceClassification``
    tokenizer: tokenizers.Tokenizer  # without truncation or padding
    pad: int  # the token that fills short rows
    fresh: tuple[str, ...]  # parameters that the pretrained files do not hold: a new head, and any that are missing

    @property
    def head(self) -> tuple[str, ...]:
        """Names of the parameters outside the base model and of fresh ones inside it; none without a base model."""
        base, names = f"{self.module.base_model_prefix}.", [name for name, _ in self.module.named_parameters()]
        if not any(name.startswith(base) for name in names):
            return ()
        return tuple(name for name in names if not name.startswith(base) or name in self.fresh)

    @property
    def positions(self) -> int | None:
        """The most tokens that a row may have; None if the configuration sets no limit."""
        known = getattr(self.module.config, "max_position_embeddings", None)
        if not (isinstance(known, int) and known > 0):
            return None
        # models like RoBERTa number positions from the one after the padding token's
        parts = [part for name, part in self.module.named_modules() if name.endswith("position_embeddings")]
        padded = [part.padding_idx for part in parts if isinstance(part, nn.Embedding) and part.padding_idx is not None]
        return known - max((index + 1 for index in padded), default=0)

    def description(self) -> bytes:
        """Return what `rebuild` needs beside the weights: configuration, tokenizer and names, as JSON."""
        parts = {
            "config": json.loads(self.module.config.to_json_string(use_diff=False)),
            "tokenizer": self.tokenizer.to_str(),
            "pad": self.pad,
            "fresh": list(self.fresh),
        }
        return json.dumps(parts).encode()


def check_path(path: str) -> None:
    """Check the path of a model without loading it.

    An absolute path must be a directory with ``config.json`` and safetensors. Anything else is a name that the library
    looks up in its cache or on the hub. Raise ConfigError if the path is empty, or a file is missing.
    """
    if not isinstance(path, str) or not path.strip():
        way_out = "Write transformer(path='/models/my-bert'), a directory or a name on the Hugging Face hub."
        raise ConfigError(explain("path", "name a pretrained model", path, way_out))
    folder = Path(path).expanduser()
    if not folder.is_absolute():
        return
    if not folder.is_dir():
        seen = f"no directory {folder}"
        raise ConfigError(explain("path", "be a directory with a model", seen, WAY_OUT), code=Code.MISSING_FILE)
    if not (folder / "config.json").is_file():
        raise ConfigError(explain(f"path {folder}", "hold config.json", "none there", WAY_OUT), code=Code.MISSING_FILE)
    if not any(folder.glob("*.safetensors")):
        others = ", ".join(sorted(file.name for file in folder.glob("*.bin"))) or "no weights"
        way_out = "Pickled weights are not read: load them where you trust them and save_pretrained again."
        message = explain(f"path {folder}", "hold weights as safetensors", f"only {others}", way_out)
        raise ConfigError(message, code=Code.MISSING_FILE)


def open_pretrained(path: str, *, num_classes: int) -> TextNet:
    """Load a model with ``num_classes`` outputs, and its tokenizer; a new head is drawn from torch's generator.

    Raise ConfigError if the library cannot load them, cannot classify texts with them, or finds no fast tokenizer.
    """
    check_path(path)
    place = str(Path(path).expanduser())
    try:
        with _quiet():
            config = transformers.AutoConfig.from_pretrained(place, num_labels=num_classes, trust_remote_code=False)
            cls = _class_of(config)
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, trust_remote_code=False)
            module, found = cls.from_pretrained(
                place,
                config=config,
                use_safetensors=True,
                dtype=torch.float32,
                attn_implementation=_attention(cls),
                ignore_mismatched_sizes=True,  # a head with another number of classes is replaced
                output_loading_info=True,
            )
    except ConfigError:
        raise
    except Exception as error:  # the library may raise anything
        seen = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        raise ConfigError(explain(f"path {path}", "be loadable by transformers", seen, WAY_OUT)) from error
    # without a file the library makes a tokenizer that knows the special tokens only
    if not getattr(tokenizer, "is_fast", False) or len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ConfigError(explain(f"path {path}", "hold a fast tokenizer (tokenizer.json)", "none", WAY_OUT))
    fresh = {*found["missing_keys"], *(key[0] if isinstance(key, tuple) else key for key in found["mismatched_keys"])}
    names = [name for name, _ in module.named_parameters()]
    base = [name for name in names if name.startswith(f"{module.base_model_prefix}.")]
    if base and fresh >= set(base):
        way_out = "Are the weights those of config.json's model_type?"
        raise ConfigError(explain(f"path {path}", "hold the weights of its base model", "none of them", way_out))
    if lacking := sorted(fresh & set(base)):
        logger.warning("%s lacks %s: trained from fresh weights", path, ", ".join(lacking[:4]))
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    if pad is None:
        way_out = "Set tokenizer.pad_token and save_pretrained again."
        raise ConfigError(explain(f"tokenizer of {path}", "have a padding token", None, way_out))
    module.config.pad_token_id = pad
    plain = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()
    return TextNet(module=module, tokenizer=plain, pad=int(pad), fresh=tuple(n for n in names if n in fresh))


def rebuild(description: bytes, weights: Mapping[str, Tensor], *, num_classes: int) -> TextNet:
    """Return the net that `TextNet.description` and its weights describe, without reading files or the network.

    Raise ValueError if the weights are not those of the described architecture.
    """
    parts = json.loads(description)
    settings = {k: v for k, v in parts["config"].items() if "implementation" not in k and k != "auto_map"}
    for key, value in settings.items():  # every layer has weights, so more layers than tensors would only fill memory
        if "layer" in key and isinstance(value, int) and value > len(weights):
            raise ValueError(f"{key} is {value} with {len(weights)} tensors")
    config = transformers.CONFIG_MAPPING[settings["model_type"]].from_dict(settings)
    if config.num_labels != num_classes:
        raise ValueError(f"the net has {config.num_labels} outputs")
    cls = _class_of(config)
    config._attn_implementation = _attention(cls)
    check_weights(weights, lambda: cls(config))
    module: nn.Module = cls(config)
    module.load_state_dict(dict(weights))
    fresh = tuple(str(name) for name in parts["fresh"])
    pad = int(parts["pad"])
    return TextNet(module=module, tokenizer=tokenizers.Tokenizer.from_str(parts["tokenizer"]), pad=pad, fresh=fresh)


def _class_of(config: Any) -> Any:
    known = transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    if type(config) not in known:
        seen = getattr(config, "model_type", type(config).__name__)
        rule = "be of a kind that transformers classifies texts with"
        raise ConfigError(explain("model_type", rule, seen, "Take an encoder such as bert, distilbert, roberta."))
    found = known[type(config)]
    return found[0] if isinstance(found, tuple) else found


def _attention(cls: Any) -> str:
    return "sdpa" if getattr(cls, "_supports_sdpa", False) else "eager"


@contextmanager
def _quiet() -> Iterator[None]:
    """Turn off the library's progress bars and its warning of a fresh head, which is intended; errors still raise."""
    library: Any = transformers.utils.logging
    level, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity_error()
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(level)
        if bars:
            library.enable_progress_bar()
