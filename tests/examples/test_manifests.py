"""The examples of a container say nothing that the command line does not take."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from lockllm.cli import cli
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
DOCKERFILE, DEPLOYMENT = EXAMPLES / "docker" / "Dockerfile", EXAMPLES / "kubernetes" / "deployment.yaml"


def lists(path: Path) -> list[list[str]]:
    """Every flow list of a file that calls lockllm, isolated, from there on."""
    isolated = r'\["?/opt/lockllm/bin/python"?,\s*"?-I"?,\s*"?-m"?,\s*("?lockllm"?,[^\]]*)\]'
    found = re.findall(isolated, path.read_text())
    return [[json.loads(word) if word.startswith('"') else word for word in re.split(r",\s*", text)] for text in found]


@pytest.mark.parametrize("path", [DOCKERFILE, DEPLOYMENT], ids=lambda path: path.name)
def test_each_command_of_an_example_is_one_that_lockllm_takes(path: Path) -> None:
    commands = lists(path)
    assert commands
    for words in commands:
        context = click.Context(cli, info_name="lockllm", **cli.context_settings)
        name, command, rest = cli.resolve_command(context, words[1:])
        assert command is not None
        words = [*rest, *(["vllm", "serve", "model"] if rest[-1] == "--" else [])]
        command.make_context(name, words, parent=context)  # else click keeps a help option without -h


def test_the_entry_point_is_isolated_from_the_engine_and_ends_where_the_command_begins() -> None:
    (entry,) = lists(DOCKERFILE)
    assert (entry[1], entry[-1]) == ("exec", "--")
    assert "/opt/lockllm" in DOCKERFILE.read_text()


def test_the_manifest_checks_at_the_start_and_not_the_readiness() -> None:
    container, probe = lists(DEPLOYMENT)
    assert (container[1], container[-1]) == ("exec", "--")
    assert probe[1:2] + probe[3:6] == ["verify", "--stage", "live", "--quick"]
    text = DEPLOYMENT.read_text()
    assert text.index("startupProbe") < text.index("verify") < text.index("readinessProbe")
    assert "LOCKLLM_CACHE" in text
