"""`python -m tools.refresh`: a release is read from its package and merged; what is known already stays as it is."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockllm.engines.kernel.release_data import NOTHING, ReleaseData, at, words
from lockllm.facts import variables
from tests.engines.future import SGLANG, SGLANG_VERSION, VERSION, VLLM
from tools.refresh import __main__ as refresh
from tools.refresh import packages, rules, snapshot, spans
from tools.refresh.engines import ENGINES
from tools.refresh.snapshot import Snapshot, merge

HERE = Path(__file__).parent / "data"
RECORDED = sorted(HERE.glob("*.json"))
ROOT = refresh.ROOT


def data(engine: str, root: Path = ROOT) -> ReleaseData:
    return msgspec.json.decode(snapshot.place(root, engine).read_bytes(), type=ReleaseData)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_data_file_is_as_the_tool_writes_it(engine: str) -> None:
    assert snapshot.text(data(engine)) == snapshot.place(ROOT, engine).read_text()
    assert rules.text(rules.load(rules.place(ROOT, engine))) == rules.place(ROOT, engine).read_text()
    assert spans.text(spans.load(spans.place(ROOT))) == spans.place(ROOT).read_text()


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_refreshing_a_release_that_is_known_changes_nothing(path: Path) -> None:
    engine = path.name.partition("-")[0]
    told = msgspec.json.decode(path.read_bytes(), type=Snapshot)
    before = data(engine)
    assert told.release in before.releases
    assert snapshot.text(merge(before, told)) == snapshot.text(before)
    if engine == "vllm":
        held = spans.load(spans.place(ROOT))
        assert spans.text(spans.merge(held, before.releases, told)) == spans.text(held)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_option_of_every_release_has_one_class(engine: str) -> None:
    classes = ENGINES[engine].classes
    names = set(data(engine).options)
    assert names - frozenset().union(*classes.values()) == set(), "class it: CONTRIBUTING.md, an engine's new release"
    twice = {name: [label for label, held in classes.items() if name in held] for name in names}
    assert {name: labels for name, labels in twice.items() if len(labels) != 1} == {}


def test_every_variable_of_vllm_has_its_class() -> None:
    listed = {word.lstrip("@~") for row in variables.vllm_rows() for word in row[2].split()}
    assert set(spans.load(spans.place(ROOT))) == listed


@pytest.mark.parametrize("engine", ENGINES)
def test_every_rule_names_a_release_that_was_read(engine: str) -> None:
    table = rules.load(rules.place(ROOT, engine)).sources
    assert {held[0] for functions in table.values() for held in functions.values()} <= set(data(engine).releases)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_rules_were_read_against_the_newest_release_of_the_data(engine: str) -> None:
    assert rules.load(rules.place(ROOT, engine)).through == data(engine).releases[-1], "run tools.refresh --rules-read"


def wheel(path: Path, distribution: str, version: str, files: Mapping[str, str]) -> Path:
    """A wheel of a made-up release."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        about = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        archive.writestr(f"{distribution}-{version}.dist-info/METADATA", about)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the tool writes."""
    for engine in ENGINES:
        for path in (snapshot.place(ROOT, engine), rules.place(ROOT, engine)):
            copy = tmp_path / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    copy = spans.place(tmp_path)
    copy.parent.mkdir(parents=True)
    shutil.copy(spans.place(ROOT), copy)
    return tmp_path


MADE_UP = {
    "vllm": (VERSION, {**VLLM, "vllm/envs.py": 'environment_variables = {"VLLM_BRAIDS": lambda: 1, "MAX_JOBS": lambda: 2}\n'}),
    "sglang": (SGLANG_VERSION, SGLANG),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_a_new_release_is_merged_once_and_then_known(
    engine: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version, files = MADE_UP[engine]
    made = str(wheel(checkout / "made-up.whl", engine, version, files))
    before = data(engine, checkout)
    assert refresh.main([engine, made, "--check", "--into", str(checkout)]) == 1
    assert data(engine, checkout) == before
    capsys.readouterr()
    assert refresh.main([engine, made, "--into", str(checkout)]) == 1
    told = capsys.readouterr().out
    after = data(engine, checkout)
    assert after.releases == (*before.releases, version)
    assert f"release    {version} is new" in told
    new = set(after.options) - set(before.options)
    assert new
    assert {line.split()[1] for line in told.splitlines() if "nobody has classed it (takes" in line} == {
        f"--{name.replace('_', '-')}:" for name in new
    }
    for section in ("options", "values", "keys", "registered", "defaults"):
        for path, steps in getattr(before, section).items():
            now = getattr(after, section)[path]
            assert now[: len(steps)] == steps, path  # what older releases have stays
    held = snapshot.place(checkout, engine).read_text()
    refresh.main([engine, made, "--into", str(checkout)])
    assert "is new" not in capsys.readouterr().out
    assert snapshot.place(checkout, engine).read_text() == held


def test_what_a_person_must_decide_is_printed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version, files = MADE_UP["vllm"]
    refresh.main(["vllm", str(wheel(checkout / "made-up.whl", "vllm", version, files)), "--into", str(checkout)])
    told = capsys.readouterr().out.splitlines()
    assert "  default    gpu_memory_utilization: 0.92 in 0.33.0, 0.87 in 0.99.0" in told
    assert "  option     --weave-order: nobody has classed it (takes text -wo, default 'under')" in told
    assert "  variable   VLLM_BRAIDS: nobody has classed it" in told
    assert not [line for line in told if "MAX_JOBS" in line]
    gone = "vllm/config/model.py:ModelConfig.get_diff_sampling_param"
    assert f"  rule       sampling: {gone} is not there" in told
    assert rules.load(rules.place(checkout, "vllm")).through == "0.33.0"
    held = spans.load(spans.place(checkout))
    assert held["VLLM_BRAIDS"] == ("0.99.0", "")
    assert held["MAX_JOBS"] == ("0.6.0", "")
    assert held["VLLM_PORT"] == ("0.6.0", "0.33.0")


def test_marks_of_variables_that_say_otherwise_are_printed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        **SGLANG,
        "sglang/srt/environ.py": "class Envs:\n    SGLANG_USE_AITER = EnvBool(False)\n    SGLANG_BRAIDS = EnvInt(1)\n",
        "sglang/srt/layers/odd.py": 'word = get_bool_env_var("SGL_ENABLE_JIT_DEEPGEMM", "false")\n',
    }
    refresh.main(
        ["sglang", str(wheel(checkout / "made-up.whl", "sglang", SGLANG_VERSION, files)), "--into", str(checkout)]
    )
    told = capsys.readouterr().out.splitlines()
    assert f"  variable   SGL_ENABLE_JIT_DEEPGEMM: its marks say that {SGLANG_VERSION} does not read it" in told
    assert f"  variable   SGLANG_ENABLE_JIT_DEEPGEMM: its marks say that {SGLANG_VERSION} reads it" in told
    assert not [line for line in told if "SGLANG_USE_AITER:" in line or "BRAIDS" in line]


def test_a_rule_that_was_read_anew_is_no_news(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version, files = MADE_UP["vllm"]
    made = str(wheel(checkout / "made-up.whl", "vllm", version, files))
    refresh.main(["vllm", made, "--rules-read", "--into", str(checkout)])
    assert "  rule " not in capsys.readouterr().out
    table = rules.load(rules.place(checkout, "vllm"))
    assert table.through == "0.99.0"
    assert {held[0] for functions in table.sources.values() for held in functions.values()} == {"0.99.0"}


BODY = "class A:\n    def f(self):\n        {0}\n        return 1{1}\n"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (BODY.format('"""What it does."""', "  # why"), False),
        (BODY.format('"""Another word."""', ""), True),
        (BODY.format("# a remark\n", ""), True),
        ("import x\n\n\n" + BODY.format("", ""), True),
        (BODY.format("", " + 1"), False),
        (BODY.format("x = 2", ""), False),
    ],
)
def test_a_digest_sees_what_code_does_and_no_more(text: str, same: bool) -> None:
    read = rules.digest_of("a.py:A.f", {"a.py": BODY.format("", "")})
    assert read
    assert (rules.digest_of("a.py:A.f", {"a.py": text}) == read) is same


@pytest.mark.parametrize("name", ["b.py:A.f", "a.py:A.g", "a.py:f", "a.py:A.f.g"])
def test_a_function_that_is_not_there_has_no_digest(name: str) -> None:
    assert rules.digest_of(name, {"a.py": BODY.format("", "")}) == ""


def test_a_rule_says_nothing_of_releases_before_it_was_read() -> None:
    table: rules.Sources = {"dtype": {"a.py:A.f": ["2.0", "0" * 16]}}
    texts = {"a.py": BODY.format("", "")}
    assert list(rules.changed_sources(table, "1.0", texts)) == []
    assert list(rules.changed_sources(table, "2.1", texts)) == [("dtype", "a.py:A.f", "is not as it was in 2.0")]
    assert list(rules.changed_sources(table, "2.1", {})) == [("dtype", "a.py:A.f", "is not there")]


RELEASES = ("1.0", "1.1", "1.2", "2.0")
WORDS = st.frozensets(st.sampled_from(["a", "b", "c", "+1", "-x", "two words", ""]), max_size=4)
CONSTANT = st.sampled_from([None, True, 1, 1.0, "1", "", [], [1], {}])
RELEASE = st.fixed_dictionaries(
    {
        "options": st.dictionaries(st.sampled_from("abc"), st.sampled_from(["int", "int -b", "text"])),
        "values": st.dictionaries(st.sampled_from("abc"), WORDS),
        "keys": st.dictionaries(st.sampled_from("abc"), WORDS),
        "defaults": st.dictionaries(st.sampled_from("abc"), CONSTANT),
    }
)


@given(st.lists(RELEASE, min_size=4, max_size=4), st.permutations(RELEASES))
@settings(deadline=None, max_examples=50)
def test_releases_merged_in_any_order_give_one_file_that_tells_each(
    told: list[dict[str, Any]], order: list[str]
) -> None:
    snapshots = {release: Snapshot(release=release, **each) for release, each in zip(RELEASES, told, strict=True)}
    found = [ReleaseData(releases=()), ReleaseData(releases=())]
    for release in RELEASES:
        found[0] = merge(found[0], snapshots[release])
    for release in (*order, *order[:2]):
        found[1] = merge(found[1], snapshots[release])
    assert snapshot.text(found[0]) == snapshot.text(found[1])
    read = msgspec.json.decode(snapshot.text(found[0]), type=ReleaseData)
    for release, each in snapshots.items():
        assert {name: at(steps, release) for name, steps in read.options.items()} == {
            name: each.options.get(name, NOTHING) for name in read.options
        }
        assert {name: words(steps, release) for name, steps in read.values.items()} == {
            name: each.values.get(name) for name in read.values
        }
        assert {name: repr(at(steps, release)) for name, steps in read.defaults.items()} == {
            name: repr(each.defaults.get(name, NOTHING)) for name in read.defaults
        }


@pytest.mark.parametrize(
    ("before", "reads", "after"),
    [
        ({}, {"X"}, {"X": ("2.0", "")}),
        ({"X": ("1.0", "")}, set(), {"X": ("1.0", "1.2")}),
        ({"X": ("1.0", "1.1")}, {"X"}, {"X": ("1.0", "")}),
        ({"X": ("1.0", "1.1")}, set(), {"X": ("1.0", "1.1")}),
        ({"X": ("1.0", "")}, {"X"}, {"X": ("1.0", "")}),
    ],
)
def test_the_newest_release_begins_and_ends_spans(before: spans.Spans, reads: set[str], after: spans.Spans) -> None:
    told = Snapshot(release="2.0", options={}, variables=frozenset(reads))
    assert spans.merge(before, RELEASES, told) == after


@pytest.mark.parametrize(
    ("before", "reads", "after"),
    [
        ({}, {"X"}, {"X": ("1.1", "1.1")}),
        ({"X": ("1.2", "")}, {"X"}, {"X": ("1.1", "")}),
        ({"X": ("1.0", "1.0")}, {"X"}, {"X": ("1.0", "1.1")}),
        ({"X": ("1.0", "1.2")}, {"X"}, {"X": ("1.0", "1.2")}),
        ({"X": ("1.0", "")}, set(), {"X": ("1.0", "")}),
    ],
)
def test_an_older_release_widens_spans_alone(before: spans.Spans, reads: set[str], after: spans.Spans) -> None:
    told = Snapshot(release="1.1", options={}, variables=frozenset(reads))
    assert spans.merge(before, RELEASES, told) == after


def test_a_wheel_and_a_folder_of_packages_are_read_alike(tmp_path: Path) -> None:
    made = wheel(tmp_path / "made-up.whl", "vllm", "0.99.0+cpu", VLLM)
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path / "site")
    (one, texts), (other, files) = (
        packages.open_release("vllm", str(tmp_path / name)) for name in ("made-up.whl", "site")
    )
    assert one == other == "0.99.0"
    assert dict(texts) == dict(files)
    assert ENGINES["vllm"].read(one, texts) == ENGINES["vllm"].read(other, files)


def test_a_path_without_the_package_says_so(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds no metadata of vllm"):
        refresh.main(["vllm", str(tmp_path), "--into", str(tmp_path)])


def test_a_release_is_recorded_as_json(checkout: Path) -> None:
    version, files = MADE_UP["vllm"]
    made = wheel(checkout / "made-up.whl", "vllm", version, files)
    record = checkout / "record.json"
    refresh.main(["vllm", str(made), "--check", "--record", str(record), "--into", str(checkout)])
    assert msgspec.json.decode(record.read_bytes(), type=Snapshot) == ENGINES["vllm"].read(
        *packages.open_release("vllm", str(made))
    )
    assert json.loads(record.read_text())["release"] == version


HELP = "usage: llama-server [options]\n\n-t,    --threads N       threads\n--braid-rate N   how tight\n-h, --help\n"


def test_a_help_text_is_held_against_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "help.txt").write_text(HELP)
    assert refresh.main(["llama.cpp", str(tmp_path / "help.txt")]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[1] == "  not in the table: --braid-rate"
    assert "--ctx-size" in told[2] and "--threads," not in told[2]


@pytest.mark.parametrize("engine", ["tgi", "llama.cpp", "ollama"])
def test_a_program_without_a_package_says_what_to_give(engine: str) -> None:
    with pytest.raises(SystemExit, match=f"no package has the command line of {engine}: name a file"):
        refresh.main([engine, "9.9.9"])


def test_the_options_of_a_command_come_with_those_of_its_helpers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "lmdeploy/cli/serve.py": (
            "class Serve:\n    def add_parser_api_server():\n        parser.add_argument('--server-port', type=int)\n"
            "        Help.braids(parser)\n    def add_parser_other():\n        parser.add_argument('--other')\n"
        ),
        "lmdeploy/cli/utils.py": (
            "class Help:\n    def braids(parser):\n        return parser.add_argument('--braids', '-b')\n"
            "    def loops(parser):\n        parser.add_argument('--loops')\n"
        ),
    }  # fmt: skip
    made = wheel(tmp_path / "made-up.whl", "lmdeploy", "9.9.9", files)
    assert refresh.main(["lmdeploy", str(made)]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == ["lmdeploy 9.9.9", "  not in the table: --braids, -b"]
