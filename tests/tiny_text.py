"""Texts whose class a few words decide, and a transformer small enough to fine-tune in a second; nothing downloaded."""

from pathlib import Path

import numpy as np
import pandas as pd

from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.models import make_model

FILLERS = ("the", "film", "was", "this", "evening", "really", "a", "story")
CLASSES = {"no": ("bad", "dull"), "yes": ("good", "fine")}
SCHEMA = Schema(columns=(Column(name="review", kind="text"),), classes=tuple(CLASSES), label="liked")


def table(count: int, seed: int = 0) -> pd.DataFrame:
    """Return reviews of six words, one of which tells."""
    rng = np.random.default_rng(seed)
    liked = rng.choice(list(CLASSES), count)
    texts = [" ".join(rng.permutation([*rng.choice(FILLERS, 5), rng.choice(CLASSES[c])])) for c in liked]
    return pd.DataFrame({"review": texts, "liked": liked})


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as a text model gets it."""
    frame = table(count, seed)
    return frame[["review"]].to_numpy(dtype=object), SCHEMA.encode_labels(frame["liked"])


def tiny_bert(folder: Path, *, num_labels: int = 0, head: bool = False, **changes: object) -> Path:
    """Write a BERT of two layers of 32, with random weights, and a word tokenizer; ``head`` with its classifier."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *FILLERS, *(word for known in CLASSES.values() for word in known)]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    settings = {
        "vocab_size": len(words),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": 0.2,  # the usual 0.02 says next to nothing at this width
        **({"num_labels": num_labels} if num_labels else {}),
        **changes,
    }
    kind = transformers.BertForSequenceClassification if head else transformers.BertModel
    transformers.utils.logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        kind(transformers.BertConfig(**settings)).save_pretrained(folder)
    transformers.utils.logging.enable_progress_bar()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return folder


def text_net(folder, seed=1, num_classes=2, **params):
    params = {"path": str(folder), "train": "all", "lr": 2e-3, "max_length": 16, **params}
    return make_model("transformer", num_classes=num_classes, num_features=1, seed=seed, params=params)


def weights(model):
    return {name: value.clone() for name, value in model.estimator.net_.module.state_dict().items()}


def changed(before, after):
    return {name for name in before if not before[name].equal(after[name])}
