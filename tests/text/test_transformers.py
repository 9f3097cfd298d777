import json
import shutil
import sys

import numpy as np
import pytest
import tiny_text
from tiny_text import changed, weights
from tiny_text import text_net as make

pytest.importorskip("transformers")
import torch

from fedkd_flwr.errors import ConfigError, MissingExtraError
from fedkd_flwr.models import serialize
from fedkd_flwr.text.transformers import TextTransformer

X, Y = tiny_text.rows(80)
X_PUBLIC, Y_PUBLIC = tiny_text.rows(40, seed=1)
X_TEST, Y_TEST = tiny_text.rows(100, seed=2)


# ----------------------------------------------------------------------------------------------------- learning


def test_it_learns_repeats_itself_and_leaves_torch_s_own_generator_alone(bert):
    assert (make(bert, seed=5, epochs=10).fit(X, Y).predict(X_TEST) == Y_TEST).mean() > 0.95
    first = make(bert, seed=5, epochs=1).fit(X, Y)
    torch.rand(1)
    state = torch.get_rng_state()
    again, other = (make(bert, seed=seed, epochs=1).fit(X, Y) for seed in (5, 6))
    assert np.array_equal(first.predict_proba(X_TEST), again.predict_proba(X_TEST))
    assert not np.array_equal(first.predict_proba(X_TEST), other.predict_proba(X_TEST))
    assert np.allclose(first.predict_proba(X_TEST).sum(axis=1), 1, atol=1e-6)
    assert torch.equal(state, torch.get_rng_state())


def test_head_trains_the_head_alone_and_learns_something(bert):
    model = make(bert, train="head", lr=3e-2).update(X, Y, steps=1)
    before = weights(model)
    model.update(X, Y, steps=100)
    assert changed(before, weights(model)) == {"classifier.weight", "classifier.bias"}
    assert (model.predict(X) == Y).mean() > 0.65


def test_public_rows_are_half_of_a_batch(bert, monkeypatch):
    seen = []
    tokenize = TextTransformer._forward
    monkeypatch.setattr(TextTransformer, "_forward", lambda net, tokens: seen.append(tokens) or tokenize(net, tokens))
    public = np.array([["evening"]], dtype=object)
    make(bert, batch_size=5).update(X, Y, public, np.array([1]), steps=3)
    assert [[len(row) == 3 for row in batch].count(True) for batch in seen] == [2, 2, 2]
    assert all(len(batch) == 5 for batch in seen)


def test_empty_and_long_texts_and_unknown_words_are_answered(bert):
    model = make(bert).update(X, Y, steps=2)
    strange = np.array([[""], ["good " * 500], ["日本語 🎬"]], dtype=object)
    assert model.predict(strange).shape == (3,)
    # what lies behind max_length is not read
    longer = np.array([["good " * 500 + "bad " * 500]], dtype=object)
    assert np.array_equal(model.predict_proba(longer), model.predict_proba(strange[1:2]))


def test_an_answer_hangs_on_the_text_not_on_its_neighbours(bert):
    model = make(bert).update(X, Y, steps=5)
    longer = np.array([["film " * 30]], dtype=object)  # in one batch with them, which it makes twice as long
    together = model.predict_proba(np.concatenate([X_TEST[:5], longer]))[:5]
    alone = np.concatenate([model.predict_proba(row[None]) for row in X_TEST[:5]])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_a_tokenizer_without_special_tokens_may_meet_an_empty_text(bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "bert")
    parts = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**parts, "post_processor": None}))
    model = make(folder).update(X, Y, steps=1)
    assert model.predict(np.array([["film"], [""]], dtype=object)).shape == (2,)
    assert model.predict(np.array([[""]], dtype=object)).shape == (1,)


# ---------------------------------------------------------------------------------------------- between rounds


@pytest.mark.parametrize("train", ["head", "all"])
def test_a_reloaded_model_continues_as_the_unsaved_one_would_without_its_directory(bert, tmp_path, train):
    folder = shutil.copytree(bert, tmp_path / "bert")
    model = make(folder, train=train).update(X, Y, X_PUBLIC, Y_PUBLIC, steps=6)
    data = serialize.dumps(model)
    again, bare = serialize.loads(data), serialize.loads(serialize.dumps(model, training_state=False))
    shutil.rmtree(folder)
    assert np.array_equal(model.predict_proba(X_TEST), again.predict_proba(X_TEST))
    probs = [m.update(X, Y, X_PUBLIC, Y_PUBLIC, steps=6).predict_proba(X_TEST) for m in (model, again, bare)]
    assert np.array_equal(probs[0], probs[1])
    assert not np.array_equal(probs[0], probs[2])  # without the state it is another continuation
    assert changed(weights(model), weights(again)) == set()


def test_unfitted_and_constant_ones_are_kept_by_their_settings(bert):
    unfitted = serialize.loads(serialize.dumps(make(bert, epochs=1)))
    assert not unfitted.is_fitted
    assert unfitted.takes_text
    constant = serialize.loads(serialize.dumps(make(bert).fit(X, np.ones(80, dtype=int))))
    assert constant.predict(X_TEST).tolist() == [1] * 100


def test_a_tokenizer_of_another_model_is_refused(bert, tmp_path):
    folder = tiny_text.tiny_bert(tmp_path, vocab_size=6)
    with pytest.raises(ConfigError, match="The tokenizer must give tokens below the model's 6, got 15"):
        make(folder).update(X, Y, steps=1)


# ----------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"path": ""}, "path must name a pretrained model"),
        ({"train": "half"}, "train must be one of head, all"),
        ({"device": "tpu"}, "device must be one of cpu, auto"),
        ({"max_length": 7}, "max_length must be a whole number >= 8"),
        ({"batch_size": 1}, "batch_size must be a whole number >= 2"),
        ({"epochs": True}, "epochs must be a whole number >= 1"),
        ({"lr": 0.0}, "lr must be finite and > 0"),
        ({"lr": float("nan")}, "lr must be finite and > 0"),
        ({"weight_decay": -1}, "weight_decay must be finite and >= 0"),
        ({"hidden": 3}, "A parameter of transformer must be among .*path.*, got 'hidden'"),
    ],
)
def test_a_wrong_setting_is_found_before_any_training(bert, params, match):
    with pytest.raises(ConfigError, match=match):
        make(bert, **params)


@pytest.mark.parametrize("library", ["transformers", "torch"])
def test_a_missing_library_names_its_extra(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r'pip install "fedkd-flwr\[text\]"'):
        make("/nowhere")
