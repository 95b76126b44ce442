"""Code that starts with the interpreter, and plugins that load because they are installed: added, edited, removed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from lockllm.facts.observation import ABSENT, Reading, Unobserved
from lockllm.judge.report import Report, Status
from lockllm.judge.verify import verify
from lockllm.observe.python import environments, startup_code
from tests.incidents.cases_engines import sglang, transformers
from tests.incidents.cases_vllm import vllm
from tests.incidents.raw import Place, Side, locked
from tests.observe import hosts

PLUGIN = "[{group}]\nnudge = nudge:register\n"
HOSTS: Mapping[str, Side] = {
    "vllm": vllm("0.32.0"), "sglang": sglang("0.5.23"), "transformers": transformers("5.24.0"),
}  # fmt: skip
CODE: Mapping[str, Mapping[str, str]] = {
    "sitecustomize": {"sitecustomize.py": "import os\n"},
    "sitecustomize, a package": {"sitecustomize/__init__.py": "import os\n"},
    "usercustomize": {"usercustomize.py": "import os\n"},
    "a line of code": {"zz.pth": "import os; os.environ['A'] = '1'\n"},
    "a line of code after a path": {"zz.pth": "/srv/more\nimport os; os.environ['A'] = '1'\n"},
    "a path": {"zz.pth": "/srv/more\n"},
    "an imported module": {"zz.pth": "import hook\n", "hook.py": "print()\n"},
}


def judged(place: Place, engine: str, before: Side, after: Side) -> Report:
    lock = locked(engine, place.look(before, engine), before, place)
    assert verify(lock, place.look(before, engine, lock)).exit_code == 0
    return verify(lock, place.look(after, engine, lock))


def differing(report: Report) -> set[str]:
    return {result.fact.key for result in report.results if result.status is Status.MISMATCH}


@pytest.mark.parametrize("engine", HOSTS)
@pytest.mark.parametrize("code", CODE)
def test_code_that_starts_with_the_interpreter_is_added_or_removed_in_the_open(
    place: Place, engine: str, code: str
) -> None:
    bare, more = HOSTS[engine], HOSTS[engine].but(site=CODE[code])
    for before, after in ((bare, more), (more, bare)):
        report = judged(place, engine, before, after)
        assert report.exit_code == 1
        assert {key.split(".")[0] for key in differing(report)} == {"startup"}


def test_an_edited_hook_and_an_edited_module_behind_a_line_are_seen(place: Place) -> None:
    for before, after in (
        ({"sitecustomize.py": "a = 1\n"}, {"sitecustomize.py": "a = 2\n"}),
        ({"zz.pth": "import hook\n", "hook.py": "a = 1\n"}, {"zz.pth": "import hook\n", "hook.py": "a = 2\n"}),
        ({"zz.pth": "import a\n"}, {"zz.pth": "import b\n"}),
    ):
        side = HOSTS["vllm"]
        assert judged(place, "vllm", side.but(site=before), side.but(site=after)).exit_code == 1


LINES = {
    "a package": "import hook",
    "a module of a package": "import hook.more",
    "several": "import os, hook",
    "after a semicolon": "import sys; import hook",
    "from a package": "import sys; from hook import more",
    "by its name": "import importlib; importlib.import_module('hook.more')",
    "by __import__": "import os; os.environ.get('A') or __import__('hook').start()",
    "in text that is run": "import sys; exec('import hook')",
    "in text of a text": "import sys; exec(\"exec('import hook')\")",
}


@pytest.mark.parametrize("kind", LINES)
def test_an_edited_package_behind_a_line_is_seen(place: Place, kind: str) -> None:
    side = HOSTS["vllm"]
    code = {"zz.pth": f"{LINES[kind]}\n", "hook/__init__.py": "\n", "hook/more.py": "a = 1\n"}
    before, after = (side.but(site={**code, "hook/more.py": f"a = {number}\n"}) for number in (1, 2))
    assert differing(judged(place, "vllm", before, after)) == {'startup.pth."zz.pth"'}


@pytest.mark.parametrize(
    "line", ["import os", "import json.decoder", "import sys, types, importlib.util", "import nowhere"]
)
def test_a_line_that_imports_the_standard_library_is_told_by_its_text(place: Place, line: str) -> None:
    site = {"zz.pth": f"{line}\n", "json/decoder.py": "a = 1\n"}
    side = HOSTS["vllm"].but(site=site)
    assert judged(place, "vllm", side, side.but(site={"json/decoder.py": "a = 2\n"})).exit_code == 0


def test_comments_and_blank_lines_start_nothing(place: Place) -> None:
    side = HOSTS["vllm"]
    assert judged(place, "vllm", side, side.but(site={"zz.pth": "# import os\n\n   \n"})).exit_code == 0


def test_where_an_environment_lies_does_not_count(tmp_path: Path, place: Place) -> None:
    side = HOSTS["vllm"].but(site={"zz.pth": "import os; os.environ['A'] = '{home}/venv/x'\n"})
    lock = locked("vllm", place.look(side, "vllm"), side, place)
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    (tmp_path / "other" / "machine").touch()
    seen = other.look(side, "vllm", lock)
    told = {result.fact.key for result in verify(lock, seen).results if result.status is Status.MISMATCH}
    assert not {key for key in told if key.startswith("startup")}


@pytest.mark.parametrize(
    ("engine", "group"),
    [
        ("vllm", "vllm.general_plugins"), ("vllm", "vllm.platform_plugins"), ("vllm", "vllm.io_processor_plugins"),
        ("vllm", "vllm.stat_logger_plugins"), ("vllm", "vllm.endpoint_plugins"), ("sglang", "sglang.srt.plugins"),
        ("sglang", "sglang.srt.platforms"),
    ],
)  # fmt: skip
def test_a_distribution_that_the_engine_loads_by_itself_is_a_difference(place: Place, engine: str, group: str) -> None:
    bare = HOSTS[engine]
    with_plugin = bare.but(
        packages={"nudge": "1.0"}, site={"nudge-1.0.dist-info/entry_points.txt": PLUGIN.format(group=group)}
    )
    key = f'serve.plugins."{group}:nudge"'
    assert differing(judged(place, engine, bare, with_plugin)) == {key}
    assert differing(judged(place, engine, with_plugin, bare)) == {key}
    newer = bare.but(
        packages={"nudge": "1.1"}, site={"nudge-1.1.dist-info/entry_points.txt": PLUGIN.format(group=group)}
    )
    assert differing(judged(place, engine, with_plugin, newer)) == {key}


PLUGIN_CODE: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "a module": ({"nudge.py": "a = 1\n"}, {"nudge.py": "a = 2\n"}),
    "a package": ({"nudge/__init__.py": "a = 1\n"}, {"nudge/__init__.py": "a = 2\n"}),
    "a module of the package": (
        {"nudge/__init__.py": "\n", "nudge/more.py": "a = 1\n"},
        {"nudge/__init__.py": "\n", "nudge/more.py": "a = 2\n"},
    ),
    "one file more": ({"nudge/__init__.py": "\n"}, {"nudge/__init__.py": "\n", "nudge/more.py": "\n"}),
}


@pytest.mark.parametrize("name", PLUGIN_CODE)
def test_an_edited_plugin_is_another_one(place: Place, name: str) -> None:
    metadata = {"nudge-1.0.dist-info/entry_points.txt": PLUGIN.format(group="vllm.general_plugins")}
    before, after = (
        HOSTS["vllm"].but(packages={"nudge": "1.0"}, site={**metadata, **code}) for code in PLUGIN_CODE[name]
    )
    assert differing(judged(place, "vllm", before, after)) == {'serve.plugins."vllm.general_plugins:nudge"'}
    assert judged(place, "vllm", before, before).exit_code == 0


def test_weights_that_are_called_pth_are_no_path_files(tmp_path: Path) -> None:
    (tmp_path / "consolidated.00.pth").write_text("import os\n")
    found = startup_code.readings(environments.build("test", tmp_path, "3.11.7", (tmp_path,)), None)
    assert {each.path if isinstance(each, Unobserved) else each.fact.path for each in found} == {
        ("startup", "sitecustomize"),
        ("startup", "usercustomize"),
    }


def test_a_hook_of_the_standard_library_counts_and_stands_behind_pythonpath(tmp_path: Path) -> None:
    home = hosts.environment(tmp_path / "venv", {})
    found = environments.of_command((str(home / "bin/python"),), {}, "/")
    assert found is not None
    assert found.standard is not None
    assert (found.standard / "os.py").is_file()
    for name in ("bare", "more"):
        (tmp_path / name).mkdir()
    (tmp_path / "more/sitecustomize.py").write_text("a = 1\n")
    moved = (msgspec.structs.replace(found, standard=tmp_path / name) for name in ("bare", "more"))
    values = [next(iter(startup_code.readings(each, None))) for each in moved]
    assert [each.value is ABSENT for each in values if isinstance(each, Reading)] == [True, False]


def test_entry_points_of_others_are_no_plugins(place: Place) -> None:
    bare = HOSTS["vllm"]
    text = PLUGIN.format(group="console_scripts") + PLUGIN.format(group="pytest11")
    other = bare.but(packages={"nudge": "1.0"}, site={"nudge-1.0.dist-info/entry_points.txt": text})
    assert judged(place, "vllm", bare, other).exit_code == 0


@pytest.mark.parametrize("name", ["jinja2", "fastokens", "outlines-core", "cachetools", "tiktoken", "sentencepiece"])
def test_packages_that_render_tokenize_or_decode_are_closed(place: Place, name: str) -> None:
    bare = HOSTS["vllm"]
    for before, after in (
        (bare, bare.but(packages={name: "1.0"})), (bare.but(packages={name: "1.0"}), bare.but(packages={name: "1.1"})),
        (bare.but(packages={name: "1.0"}), bare),
    ):  # fmt: skip
        assert f"packages.{name}" in differing(judged(place, "vllm", before, after))


@pytest.mark.parametrize("variable", ["TORCHDYNAMO_DISABLE", "NVIDIA_TF32_OVERRIDE", "LD_PRELOAD"])
def test_a_command_that_shows_no_release_is_locked_with_its_variables(place: Place, variable: str) -> None:
    bare = Side(argv="llama-server -m {home}/model.gguf", packages={})
    more = bare.but(env={variable: "1"})
    assert differing(judged(place, "llama.cpp", bare, more)) == {f"env.{variable}"}
    assert differing(judged(place, "llama.cpp", more, bare)) == {f"env.{variable}"}
