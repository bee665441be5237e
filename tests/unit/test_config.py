from __future__ import annotations

import json

import pytest

from wheeltapper import config, defaults
from wheeltapper.config import Config, Mode
from wheeltapper.errors import ConfigError


def test_a_new_install_only_observes():
    assert Config().policy.mode is Mode.OBSERVE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour = 1", "f.toml: colour: there is no such key"),
        ("[policy]\nmod = 'full'", "f.toml: policy.mod: there is no such key"),
        (
            "[policy]\nprobation_h = 24.0",
            "f.toml: policy.probation_h: delete it, there is no such key any more: large jobs",
        ),
        ("[policy]\nmode = 'fast'", "policy.mode: input should be 'observe', 'quarantine' or 'full' (it is 'fast')"),
        ("[policy]\nretry_budget = true", "policy.retry_budget: input should be a valid integer (it is True)"),
        ("[policy]\nretry_budget = -1", "policy.retry_budget"),
        ("[policy.budget]\nmax_percent = 0", "policy.budget.max_percent"),
        ("[controller]\naddress = 'nowhere'", "controller.address"),
        ("[agent]\nring_rows = '5'", "agent.ring_rows: input should be a valid integer (it is '5')"),
        ("a b", "f.toml is not TOML"),
    ],
)
def test_a_wrong_key_or_value_is_named(text, said):
    with pytest.raises(ConfigError) as error:
        config.parse(text, "f.toml")

    assert said in str(error.value)


def test_every_wrong_key_is_named_at_once():
    with pytest.raises(ConfigError, match=r"policy\.two: .*; one: "):
        config.parse("one = 1\n[policy]\ntwo = 2")


def test_paths_and_numbers_are_taken_as_toml_writes_them():
    made = config.parse("[agent]\nkmsg = '/x/kmsg'\nverdict_valid_s = 5\n[node]\ngpus = ['0000:3b:00']")

    assert (str(made.agent.kmsg), made.agent.verdict_valid_s, made.node.gpus) == ("/x/kmsg", 5.0, ("0000:3b:00",))


def test_a_json_file_holds_the_same_tree(tmp_path):
    file = tmp_path / "wheeltapper.json"
    file.write_text('{"policy": {"mode": "full", "budget": {"max_nodes": null}}}')

    assert config.load(file) == config.parse("[policy]\nmode = 'full'")


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is not JSON"), ("[]", "wheeltapper.json"), ('{"polcy": {}}', "polcy: there is no such key")],
)
def test_what_is_wrong_in_a_json_file_is_named(text, words):
    with pytest.raises(ConfigError, match=words):
        config.parse(text, "wheeltapper.json")


def tables(values, above=""):
    """Render what JSON shows of a configuration as TOML; what is absent stays absent."""
    lines = [
        f"{key} = {json.dumps(value)}"
        for key, value in values.items()
        if value is not None and not isinstance(value, dict)
    ]
    head = [f"[{above}]"] if above else []
    below = [
        line
        for key, value in values.items()
        if isinstance(value, dict)
        for line in tables(value, f"{above}.{key}".strip("."))
    ]
    return [*head, *lines, *below]


def test_what_is_in_force_can_be_written_as_a_file_again():
    text = "[node]\ngpus = ['0000:3b:00']\nexpected_gpus = 1\n[slurm]\nconf = '/x/slurm.conf'\n[policy.budget]\nmax_nodes = 3"
    made = config.parse(text)

    assert config.parse("\n".join(tables(made.model_dump(mode="json")))) == made


def test_no_file_in_the_default_place_means_all_defaults(monkeypatch, tmp_path):
    monkeypatch.delenv("WHEELTAPPER_CONFIG", raising=False)
    monkeypatch.setattr(defaults, "PATH", tmp_path / "none.toml")

    assert config.load() == Config()


def test_a_file_that_was_asked_for_must_be_there(monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        config.load(tmp_path / "none.toml")
    monkeypatch.setenv("WHEELTAPPER_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="does not exist"):
        config.load()


def test_every_setting_says_what_it_is():
    def undescribed(schema, name=""):
        for key, value in schema.get("properties", {}).items():
            if "$ref" not in value and "description" not in value:
                yield f"{name}.{key}"

    schema = Config.model_json_schema()
    missing = [*undescribed(schema)] + [
        bad for name, each in schema["$defs"].items() for bad in undescribed(each, name)
    ]

    assert missing == []
