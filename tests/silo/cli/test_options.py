"""Commands are told a node's settings as words, and what follows -- is for its SuperNode."""

from fedkd_flwr.silo.cli.options import node_options, without_file


def test_words_are_settings_until_the_first_option_and_named_options_follow_those_of_the_user():
    words = ["party=a", "data-path=/own.csv", "--superlink", "10.0.0.7:9092"]
    settings, options, values = node_options(words, insecure=True, root_certificates="ca.pem", node_config="")
    assert settings == words[:2]
    assert options == ["--superlink", "10.0.0.7:9092", "--insecure", "--root-certificates", "ca.pem"]
    assert (values["party"], values["data-path"]) == ("a", "/own.csv")


def test_settings_that_only_fedkd_file_reads_are_left_out():
    assert without_file({"party": "a", "file.key": "k.pem"}) == {"party": "a"}
    assert node_options(None) == ([], [], {})
