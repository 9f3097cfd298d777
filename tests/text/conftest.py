"""A tiny pretrained net that reads texts."""

import pytest
import tiny_text


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return tiny_text.tiny_bert(tmp_path_factory.mktemp("bert"))
