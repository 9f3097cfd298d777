"""A pretrained text model as module and tokenizer: what is loaded, and what of it is refused."""

import io
import json
import logging
import shutil
import zipfile
from hashlib import sha256

import numpy as np
import pytest
import tiny_text
from tiny_text import changed, weights
from tiny_text import text_net as make

pytest.importorskip("transformers")
import torch
from safetensors.torch import load, save

from fedkd_flwr.errors import Code, ConfigError, ModelBytesError
from fedkd_flwr.models import serialize

X, Y = tiny_text.rows(80)


@pytest.fixture(scope="module")
def saved(bert):
    return serialize.dumps(make(bert).update(X, Y, steps=1))


def forged(saved, edit):
    """Return a model's bytes with other tensors, and a digest that fits them."""
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        meta, tensors = json.loads(archive.read("meta.json")), load(archive.read("payload"))
    edit(tensors)
    payload = save(tensors)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("meta.json", json.dumps({**meta, "sha256": sha256(payload).hexdigest()}))
        archive.writestr("payload", payload)
    return buffer.getvalue()


def described(**changes):
    def edit(tensors):
        parts = json.loads(tensors["description"].numpy().tobytes())
        parts["config"] |= changes
        tensors["description"] = torch.frombuffer(bytearray(json.dumps(parts).encode()), dtype=torch.uint8)

    return edit


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (described(num_hidden_layers=10**9), "num_hidden_layers is 1000000000"),
        (described(hidden_size=64), "other names or shapes"),
        (described(model_type="no-such"), "no-such"),
        (described(model_type="vit"), "must be of a kind that transformers classifies texts with"),
        (described(id2label={"0": "a", "1": "b", "2": "c"}), "the net has 3 outputs"),
        (lambda t: t.pop("model.classifier.bias"), "other names or shapes"),
        (lambda t: t.update({"description": torch.zeros(3)}), "the description is no text"),
        (lambda t: t.update({"rng": torch.zeros(3, dtype=torch.uint8)}), "RNG state"),
    ],
)
def test_bytes_of_no_single_net_are_refused(saved, edit, match):
    with pytest.raises((ModelBytesError, ConfigError), match=match):
        serialize.loads(forged(saved, edit))


def test_neither_bytes_nor_a_directory_name_code_to_be_fetched(bert, saved, tmp_path):
    """An attention implementation may be a repository of kernels, which the library would fetch and run."""
    edit = described(attn_implementation="evil/kernel", auto_map={"AutoModel": "evil--model.py"})
    folder = shutil.copytree(bert, tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "attn_implementation": "evil/kernel"}))
    for model in (serialize.loads(forged(saved, edit)), make(folder).update(X, Y, steps=1)):
        assert model.estimator.net_.module.config._attn_implementation == "sdpa"


def test_a_head_for_as_many_classes_is_kept_and_one_for_others_replaced(tmp_path):
    folder = tiny_text.tiny_bert(tmp_path, head=True, num_labels=3)
    kept = weights(make(folder, num_classes=3, lr=1e-12).update(X, Y, steps=1))
    stored = load((folder / "model.safetensors").read_bytes())
    torch.testing.assert_close(kept["classifier.weight"], stored["classifier.weight"])
    model = make(folder, num_classes=2, train="head").update(X, Y, steps=1)
    assert weights(model)["classifier.weight"].shape == (2, 32)
    assert changed(stored, {**stored, **weights(model)}) == {"classifier.weight", "classifier.bias"}


def test_what_the_pretrained_model_lacks_is_trained_with_the_head_and_said(bert, tmp_path, caplog):
    folder = shutil.copytree(bert, tmp_path / "bert")
    file = folder / "model.safetensors"
    tensors = {k: v for k, v in load(file.read_bytes()).items() if not k.startswith("pooler")}
    file.write_bytes(save(tensors, metadata={"format": "pt"}))
    with caplog.at_level(logging.WARNING, logger="flwr.party"):
        model = make(folder, train="head").update(X, Y, steps=1)
    assert "lacks bert.pooler.dense.bias, bert.pooler.dense.weight: trained from fresh weights" in caplog.text
    assert "bert.pooler.dense.weight" in model.estimator.net_.head
    again = serialize.loads(serialize.dumps(model))
    assert again.estimator.net_.head == model.estimator.net_.head


def test_weights_of_another_architecture_are_refused(bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "bert")
    tensors = load((folder / "model.safetensors").read_bytes())
    (folder / "model.safetensors").write_bytes(save({f"x.{k}": v for k, v in tensors.items()}, {"format": "pt"}))
    with pytest.raises(ConfigError, match="hold the weights of its base model, got none of them"):
        make(folder).update(X, Y, steps=1)


def test_pickled_weights_are_refused_before_anything_is_read(bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "bert")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"weights as safetensors, got only pytorch_model.bin. Pickled") as caught:
        make(folder)
    assert caught.value.code is Code.MISSING_FILE


def test_a_model_s_own_code_is_never_run(bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "bert")
    marker = tmp_path / "was-here"
    (folder / "modeling_own.py").write_text(f"open({str(marker)!r}, 'w')\n", encoding="utf-8")
    config = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "modeling_own.Own", "AutoModelForSequenceClassification": "modeling_own.Own"}
    config |= {"model_type": "own", "auto_map": own}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="be loadable by transformers"):
        make(folder).update(X, Y, steps=1)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda f: shutil.rmtree(f), "be a directory with a model, got no directory"),
        (lambda f: (f / "config.json").unlink(), "hold config.json"),
        (lambda f: (f / "model.safetensors").write_bytes(b"damaged"), "be loadable by transformers"),
        (
            lambda f: [(f / name).unlink() for name in ("tokenizer.json", "tokenizer_config.json")],
            "hold a fast tokenizer",
        ),
    ],
)
def test_an_incomplete_directory_is_refused(bert, tmp_path, spoil, match):
    folder = shutil.copytree(bert, tmp_path / "bert")
    spoil(folder)
    with pytest.raises(ConfigError, match=match):
        make(folder).update(X, Y, steps=1)


def test_roberta_s_reserved_positions_are_not_promised(bert, tmp_path):
    import transformers

    folder = shutil.copytree(bert, tmp_path / "roberta")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.RobertaConfig(vocab_size=16, max_position_embeddings=32, pad_token_id=0, **sizes)
    transformers.RobertaModel(config).save_pretrained(folder)
    long = np.array([["good " * 100]] * 2, dtype=object)
    model = make(folder, max_length=31).update(long, np.array([0, 1]), steps=1)
    assert model.predict(long).shape == (2,)
    with pytest.raises(ConfigError, match="max_length must be at most the model's 31 positions, got 32"):
        make(folder, max_length=32).update(long, np.array([0, 1]), steps=1)
    with pytest.raises(ConfigError, match="max_length must be at most the model's 64 positions, got 65"):
        make(bert, max_length=65).update(X, Y, steps=1)
