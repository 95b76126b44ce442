"""A module before the standard library or the site folders is imported in place of the one that an engine means."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from lockllm.facts.observation import Reading
from lockllm.observe.python import environments, shadows
from tests.observe import hosts

SHADOWS: Mapping[str, tuple[str, str]] = {
    "a module of the standard library": ("json.py", "json"),
    "a package of the standard library": ("asyncio/__init__.py", "asyncio"),
    "an extension of the standard library": ("_ssl.cpython-311-x86_64-linux-gnu.so", "_ssl"),
    "bytecode without a source": ("typing.pyc", "typing"),
    "a package of bytecode": ("logging/__init__.pyc", "logging"),
    "a stable extension": ("random.abi3.so", "random"),
    "a package of the engine": ("uvloop.py", "uvloop"),
    "an engine": ("vllm/__init__.py", "vllm"),
    "an extension of the engine": ("numpy.so", "numpy"),
}
HARMLESS = (
    "serve.py",
    "numpy/notes.py",
    "test/__init__.py",
    "json.txt",
    "json.py.bak",
    "vllm",
    "models/json.py",
    "turtle.py",
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = hosts.environment(tmp_path_factory.mktemp("shadows") / "venv", {})
    for name in ("uvloop", "vllm", "numpy"):
        hosts.install(hosts.site(home), name, "1.0", files={f"{name}/__init__.py": "\n"})
    return home / "bin" / "python"


def write(path: Path, text: str = "x = 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def told(python: Path, *words: str, env: Mapping[str, str] | None = None, cwd: Path) -> dict[str, object]:
    environment = environments.of_command((str(python), *words), env or {}, str(cwd))
    assert environment is not None
    return {each.fact.path[-1]: each.value for each in shadows.readings(environment) if isinstance(each, Reading)}


@pytest.mark.parametrize("place", ["cwd", "PYTHONPATH", "script"])
@pytest.mark.parametrize("kind", SHADOWS)
def test_a_module_in_front_is_told_by_its_code(tmp_path: Path, python: Path, kind: str, place: str) -> None:
    file, name = SHADOWS[kind]
    front, other = tmp_path / "front", tmp_path / "other"
    other.mkdir()
    script = write(front / "serve_it.py")
    env = {"PYTHONPATH": str(front)} if place == "PYTHONPATH" else {}
    words = (str(script),) if place == "script" else ("-m", "vllm.entrypoints.openai.api_server")
    cwd = front if place == "cwd" else other
    assert told(python, *words, env=env, cwd=cwd) == {}
    write(front / file)
    first = told(python, *words, env=env, cwd=cwd)
    assert list(first) == [name]
    write(front / file, "x = 2\n")
    assert told(python, *words, env=env, cwd=cwd)[name] != first[name]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_stands_for_no_other_module_is_no_difference(tmp_path: Path, python: Path, name: str) -> None:
    write(tmp_path / name)
    assert told(python, "-m", "vllm", env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path) == {}


@pytest.mark.parametrize(("words", "env"), [
    (("-I", "-m", "vllm"), {"PYTHONPATH": "."}), (("-P", "-m", "vllm"), {}), (("-m", "vllm"), {"PYTHONSAFEPATH": "1"}),
])  # fmt: skip
def test_a_folder_that_an_interpreter_leaves_out_shadows_nothing(
    tmp_path: Path, python: Path, words: tuple[str, ...], env: Mapping[str, str]
) -> None:
    write(tmp_path / "json.py")
    assert told(python, *words, env=env, cwd=tmp_path) == {}


def test_an_archive_on_pythonpath_is_told_by_its_bytes(tmp_path: Path, python: Path) -> None:
    values = []
    for text in ("x = 1\n", "x = 2\n"):
        with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
            archive.writestr("json.py", text)
        values.append(told(python, "-m", "vllm", env={"PYTHONPATH": str(tmp_path / "more.zip")}, cwd=tmp_path))
    assert [list(each) for each in values] == [["more.zip"], ["more.zip"]]
    assert values[0] != values[1]


def test_the_standard_library_itself_on_pythonpath_shadows_nothing(tmp_path: Path, python: Path) -> None:
    environment = environments.of_command((str(python), "-m", "vllm"), {}, str(tmp_path))
    assert environment is not None
    assert told(python, "-m", "vllm", env={"PYTHONPATH": str(environment.standard)}, cwd=tmp_path) == {}
