"""transformers serve: no endpoint shows more than the model's name, so files, packages and the command line must."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.e2e.loop import Verdict, good, verify
from tests.servers import start

pytestmark = pytest.mark.transformers

ENV = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
SPEC = """\
[checkpoint]
path = "model"

[engine]
name = "transformers"
"""


def host(folder: Path) -> Path:
    """A checkpoint that keeps its template in tokenizer_config.json, as many do, and a spec."""
    shutil.copytree(TINY / "model", folder / "model")
    template = folder / "model" / "chat_template.jinja"
    edit(folder, "tokenizer_config.json", chat_template=template.read_text())
    template.unlink()
    (folder / "llm.toml").write_text(SPEC)
    return folder


def edit(home: Path, name: str, **values: object) -> None:
    path = home / "model" / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}, indent=2))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, transformers_venv: Path) -> Path:
    """A host locked from its running server, and verified clean, as it runs and before it runs."""
    made = host(tmp_path_factory.mktemp("first"))
    with start.transformers_serve(made / "model", env=ENV, venv=transformers_venv) as server:
        good(made, "observe", "--server", server.url, "-o", "host.json")
        good(made, "lock", "--observation", "host.json", "--pin", "env.*")
        clean = verify(made, "--server", server.url)
    assert (clean.code, clean.causes, clean.unknown, clean.failed) == (0, set(), {}, set())
    return made


@pytest.fixture
def locked(first: Path, tmp_path: Path) -> Path:
    """Another host like it, with the first one's lock: to be changed at will."""
    made = host(tmp_path)
    shutil.copy(first / "llm.lock", made / "llm.lock")
    return made


def flip_a_weight(home: Path) -> None:
    data = bytearray((home / "model" / "model.safetensors").read_bytes())
    data[-8] ^= 1
    (home / "model" / "model.safetensors").write_bytes(data)


def add_a_template(home: Path) -> None:
    (home / "model" / "chat_template.jinja").write_text(
        "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{% endfor %}"
    )


def edit_the_template(home: Path) -> None:
    path = home / "model" / "tokenizer_config.json"
    path.write_text(path.read_text().replace("You are a tiny assistant.", "You are a helpful assistant."))


def delete_the_generation_config(home: Path) -> None:
    (home / "model" / "generation_config.json").unlink()


def raise_the_temperature(home: Path) -> None:
    edit(home, "generation_config.json", temperature=0.9)


def nothing(home: Path) -> None:
    pass


FILE = 'checkpoint.files."{}"'.format
Change = tuple[str, Callable[[Path], None], tuple[str, ...], dict[str, str], set[str]]
CHANGES: list[Change] = [
    ("another byte of the weights", flip_a_weight, (), {}, {FILE("model.safetensors")}),
    ("an added chat_template.jinja", add_a_template, (), {}, {FILE("chat_template.jinja")}),
    ("another template text", edit_the_template, (), {}, {FILE("tokenizer_config.json")}),
    ("a deleted generation_config.json", delete_the_generation_config, (), {}, {FILE("generation_config.json")}),
    ("another sampling default", raise_the_temperature, (), {}, {FILE("generation_config.json")}),
    ("another dtype", nothing, ("--dtype", "float32"), {}, {"serve.dtype"}),
    ("continuous batching", nothing, ("--continuous-batching",), {}, {"serve.continuous_batching"}),
    ("another attention", nothing, ("--attn-implementation", "eager"), {}, {"serve.attention_backend"}),
    ("a seed", nothing, ("--default-seed", "3"), {}, {"serve.seed"}),
    ("a changed variable", nothing, (), {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}, {"env.CUBLAS_WORKSPACE_CONFIG"}),
]


@pytest.mark.parametrize(
    ("change", "args", "env", "causes"), [change[1:] for change in CHANGES], ids=[change[0] for change in CHANGES]
)
def test_a_change_is_reported_as_itself_and_nothing_else(
    locked: Path,
    transformers_venv: Path,
    change: Callable[[Path], None],
    args: tuple[str, ...],
    env: dict[str, str],
    causes: set[str],
) -> None:
    change(locked)
    with start.transformers_serve(locked / "model", *args, env={**ENV, **env}, venv=transformers_venv) as server:
        found = verify(locked, "--server", server.url)
    assert_exactly(found, causes)


def test_another_package_version_is_reported_as_itself(locked: Path, transformers_venv: Path) -> None:
    venv = start.linked_venv(transformers_venv, locked / "venv")
    start.set_version(venv, "tokenizers", "0.23.1")
    with start.transformers_serve(locked / "model", env=ENV, venv=venv) as server:
        found = verify(locked, "--server", server.url)
    assert_exactly(found, {"packages.tokenizers"})


def assert_exactly(found: Verdict, causes: set[str]) -> None:
    assert (found.code, found.causes, found.unknown) == (1, causes, {})
    assert set(found.followers.values()) <= causes
