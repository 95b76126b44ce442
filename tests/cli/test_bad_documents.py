"""Specs, locks and observations that are none: one clear error each, whole, with the exit code; what was there stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import SPEC, Call, observation

LOCK = 'lock_version = 1\n\n[engine]\nname = "vllm"\n'
SEEN = observation({"engine.name": "vllm"})
KINDS = {
    "llm.toml": (("lock",), "write one with `lockllm init PATH`, or name it: lockllm lock SPEC", SPEC),
    "llm.lock": (
        ("verify", "--observation", "host.json"), "make one with `lockllm lock`, or name it: lockllm verify PATH", LOCK,
    ),
    "host.json": (("verify", "--observation", "host.json"), "write one with `lockllm observe -o FILE`", SEEN),
}  # fmt: skip
Kind = tuple[str, tuple[str, ...], str]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, folder: Path) -> Kind:
    """A document's name, what reads it, and the fix where it is not there; the other two are good."""
    name = request.param
    (folder / "llm.lock").write_text(LOCK)
    (folder / "host.json").write_text(SEEN)
    return name, KINDS[name][0], KINDS[name][1]


def test_the_documents_are_good_but_for_what_each_test_does(kind: Kind, call: Call) -> None:
    assert call(*kind[1]).code == 0


def test_a_document_that_is_missing(kind: Kind, call: Call) -> None:
    name, command, fix = kind
    Path(name).unlink()
    done = call(*command)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"lockllm: no such file\n  in    {name}\n  fix   {fix}\n"


@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_a_document_that_is_empty(kind: Kind, call: Call, data: bytes) -> None:
    name, command, _ = kind
    fixes = {"llm.toml": "write one with `lockllm init PATH`", "llm.lock": "make a lock with `lockllm lock`"}
    Path(name).write_bytes(data)
    done = call(*command)
    fix = fixes.get(name, "write one with `lockllm observe -o FILE`")
    assert (done.code, done.err) == (2, f"lockllm: the file is empty\n  in    {name}\n  fix   {fix}\n")


def test_a_document_that_is_a_directory(kind: Kind, call: Call) -> None:
    name, command, _ = kind
    Path(name).unlink()
    Path(name).mkdir()
    done = call(*command)
    assert done.code == 2
    if name == "llm.toml":  # a directory is taken for the one that holds the spec
        assert done.err.startswith("lockllm: no such file\n  in    llm.toml/llm.toml\n")
    else:
        assert done.err == f"lockllm: this is a directory\n  in    {name}\n  fix   name a file in it\n"


def test_a_document_that_is_a_pipe(kind: Kind, call: Call) -> None:
    name, command, _ = kind
    Path(name).unlink()
    os.mkfifo(name)
    done = call(*command)
    assert (done.code, done.err) == (2, f"lockllm: not a regular file\n  in    {name}\n  fix   name a file\n")


def test_a_document_that_is_a_link_to_itself(kind: Kind, call: Call) -> None:
    name, command, _ = kind
    Path(name).unlink()
    Path(name).symlink_to(name)
    done = call(*command)
    assert done.code == 4
    assert done.err == (
        f"lockllm: the file cannot be read: too many levels of symbolic links\n  in    {name}\n  fix   check its permissions\n"
    )


@pytest.mark.parametrize(
    ("data", "what", "line", "fix"),
    [
        (b"\x7fELF\x02\x01\x00", "the file is binary", "", "check that it is the right file"),
        (b"a = 1\nb = '\xe4'\n", "the file is not UTF-8: byte 0xe4", ", line 2", "save it as UTF-8"),
        ("a = 1\n".encode("utf-16"), "the file is not UTF-8: byte 0xff", ", line 1", "save it as UTF-8"),
        (b"\x93NUMPY", "the file is not UTF-8: byte 0x93", ", line 1", "save it as UTF-8"),
    ],
)
def test_a_document_that_is_no_text(kind: Kind, call: Call, data: bytes, what: str, line: str, fix: str) -> None:
    name, command, _ = kind
    Path(name).write_bytes(data)
    done = call(*command)
    assert (done.code, done.err) == (2, f"lockllm: {what}\n  in    {name}{line}\n  fix   {fix}\n")


def test_a_document_that_is_huge(kind: Kind, call: Call) -> None:
    name, command, _ = kind
    with open(name, "wb") as file:
        file.truncate(1 << 40)
    done = call(*command)
    assert (done.code, done.err) == (
        2, f"lockllm: the file holds more than 67,108,864 bytes\n  in    {name}\n  fix   check that it is the right file\n",
    )  # fmt: skip


def test_a_byte_order_mark_is_no_trouble(kind: Kind, call: Call) -> None:
    name, command, _ = kind
    Path(name).write_bytes(b"\xef\xbb\xbf" + Path(name).read_bytes())
    assert call(*command).code == 0


def test_lines_may_end_as_on_windows(kind: Kind, call: Call) -> None:
    name, command, _ = kind
    Path(name).write_bytes(Path(name).read_bytes().replace(b"\n", b"\r\n"))
    assert call(*command).code == 0


@pytest.mark.parametrize("name", ["llm.toml", "llm.lock"])
@pytest.mark.parametrize(
    ("text", "what", "where", "fix"),
    [
        ("[engine]\nname = \n", "this is not TOML: invalid value", ", line 2", "correct that line"),
        ("[engine]\nname = 'a'\nname = 'b'\n", "name appears twice", ", line 3", "remove one of them"),
        ("[engine]\n[engine]\n", "engine appears twice", ", line 2", "remove one of them"),
        ("<html>\n", "this is not TOML: invalid statement", ", line 1", "correct that line"),
        ("a = " + "[" * 5000 + "\n", "this TOML is nested too deeply or holds an impossible value", "", "flatten it"),
        ("a = 2026-02-30\n", "this is not TOML: invalid date or datetime", ", line 1", "correct that line"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(
    folder: Path, call: Call, name: str, text: str, what: str, where: str, fix: str
) -> None:
    (folder / "llm.lock").write_text(LOCK)
    (folder / "host.json").write_text(SEEN)
    (folder / name).write_text(text)
    done = call(*KINDS[name][0])
    assert (done.code, done.err) == (2, f"lockllm: {what}\n  in    {name}{where}\n  fix   {fix}\n")


def test_all_problems_of_a_spec_are_told_at_once(folder: Path, call: Call) -> None:
    (folder / "llm.toml").write_text(
        '[checkpoint]\npath = "model"\nrevison = "main"\n[engine]\nname = "vlm"\n[serve]\ntensor_parallel_size = "two"\n'
        'dtpye = "auto"\nmax_num_seqs = 0\n[sampling]\ntemperature = -1\n[polcy]\n[policy]\n"serve.dtype" = "compatible"\n'
        '"serve.seed" = "loose"\n"nope.*" = "exact"\n"check.nope" = "report"\n"check.bos_once" = "compatible"\n'
        '[[waive]]\nfact = "host.gpu"\nreason = "x"\n[host]\ndriver = ">>5"\ngpu_count = true\n'
    )  # fmt: skip
    done = call("lock")
    assert done.code == 2
    assert done.err == (
        "lockllm: there is no fact checkpoint.revison\n  in    llm.toml, line 3\n  fix   did you mean revision?\n"
        "lockllm: there is no engine 'vlm'\n  in    llm.toml, line 5\n  fix   did you mean vllm?\n"
        'lockllm: serve.tensor_parallel_size must be a whole number, found "two"\n  in    llm.toml, line 7\n'
        "  fix   write it without quotes: tensor_parallel_size = 2\n"
        "lockllm: there is no fact serve.dtpye\n  in    llm.toml, line 8\n"
        "  fix   did you mean serve.dtype? An option of the engine without a neutral name goes under [serve.args]\n"
        "lockllm: serve.max_num_seqs is 0, which cannot be\n  in    llm.toml, line 9\n  fix   write a number from 1 to 1,000,000,000\n"
        "lockllm: sampling.temperature is -1, which cannot be\n  in    llm.toml, line 11\n  fix   write a number from 0 to 100\n"
        "lockllm: there is no table polcy\n  in    llm.toml, line 12\n  fix   did you mean [policy]?\n"
        "lockllm: policy compatible is not defined for serve.dtype: dtype\n  in    llm.toml, line 14\n"
        "  fix   write exact, report or ignore\n"
        "lockllm: policy serve.seed is 'loose'\n  in    llm.toml, line 15\n  fix   write one of exact, compatible, report, ignore\n"
        "lockllm: policy nope.* names no fact\n  in    llm.toml, line 16\n  fix   see `lockllm explain`\n"
        "lockllm: there is no check check.nope\n  in    llm.toml, line 17\n  fix   did you mean check.bos_once?\n"
        "lockllm: policy compatible is not defined for check.bos_once: a finding\n  in    llm.toml, line 18\n"
        "  fix   write exact, report or ignore\n"
        "lockllm: the waiver of host.gpu names no value\n  in    llm.toml, line 19\n  fix   write found = the value that is accepted\n"
        "lockllm: host.driver is not a range: '>>5'\n  in    llm.toml, line 23\n  fix   write one such as \">=550.54.14\"\n"
        "lockllm: host.gpu_count must be a whole number, found true\n  in    llm.toml, line 24\n  fix   write a whole number\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "there is no table x\n  in    llm.toml, line 1\n  fix   remove it"),
        ("[checkpoint]\n[engine]\n", "the spec names no checkpoint\n  in    llm.toml, line 1\n"
         "  fix   write [checkpoint] and repo = \"OWNER/NAME\" or path = \"DIR\""),
        ('[checkpoint]\nrepo = "a/b"\n', "the spec names no engine\n  in    llm.toml\n  fix   write [engine] and name = \"vllm\" "
         "(one of llama-cpp-python, llama.cpp, lmdeploy, ollama, sglang, tensorrt-llm, tgi, transformers, vllm)"),
        ('[checkpoint]\nrepo = "a/b/c"\n', "'a/b/c' is not a repository\n  in    llm.toml, line 2\n  fix   write \"OWNER/NAME\""),
        ('[checkpoint]\nrepo = "a/b"\npath = "c"\n', "checkpoint names a repo and a path\n  in    llm.toml, line 3\n"
         "  fix   keep one of them"),
        ('[checkpoint]\npath = "c"\nrevision = "main"\n', "a path has no revision\n  in    llm.toml, line 3\n"
         "  fix   remove it, or name a repo"),
        ('[checkpoint]\npath = 3\n', "checkpoint.path must be a text, found 3\n  in    llm.toml, line 2\n  fix   write it in quotes"),
        ('[checkpoint]\ndtype = "bfloat16"\n', "checkpoint.dtype is determined by lockllm, not set\n  in    llm.toml, line 2\n"
         "  fix   remove it; `lockllm lock` fills it"),
        ('[checkpoint]\ninclude = "*"\n', "checkpoint.include must be a list of texts, found \"*\"\n  in    llm.toml, line 2\n"
         "  fix   write [\"*.safetensors\"]"),
        ('[serve]\nenforce_eager = "true"\n', "serve.enforce_eager must be true or false, found \"true\"\n  in    llm.toml, line 2\n"
         "  fix   write it without quotes: enforce_eager = true"),
        ('serve = 1\n', "serve is not a table\n  in    llm.toml, line 1\n  fix   write [serve]"),
        ('[engine]\nversion = "new"\n', "engine.version is 'new'\n  in    llm.toml, line 2\n"
         "  fix   write a range such as \">=0.10,<0.11\" or one version"),
        ('[[waive]]\nfact = "host.gpu"\nfound = "x"\nreason = " "\n', "the waiver of host.gpu gives no reason\n"
         "  in    llm.toml, line 1\n  fix   write reason = \"why it is accepted\""),
        ('[[waive]]\nfact = "host.gpu"\nfound = "x"\nreason = "y"\nuntil = "soon"\n', "until of the waiver of host.gpu is not a date\n"
         "  in    llm.toml, line 1\n  fix   write until = 2027-03-31"),
        (SPEC + '[[waive]]\nfact = "host.gpux"\nfound = "x"\nreason = "y"\n',
            "a waiver names no fact: host.gpux\n  in    llm.toml, line 7\n"
         "  fix   did you mean host.gpu?"),
        ('[waive]\nfact = "host.gpu"\n', "waive is not a list of tables\n  in    llm.toml, line 1\n"
         "  fix   write [[waive]] with fact, found and reason"),
        ('[packages]\ntorch = 2\n', "packages.torch must be a text, found 2\n  in    llm.toml, line 2\n  fix   write a text"),
        ('[env]\nVLLM_X = 1\n', "env.VLLM_X must be a text, found 1\n  in    llm.toml, line 2\n  fix   write a text"),
    ],
)  # fmt: skip
def test_a_problem_of_a_spec_is_told_with_file_line_key_and_fix(
    folder: Path, call: Call, text: str, message: str
) -> None:
    (folder / "llm.toml").write_text(text)
    done = call("lock")
    assert (done.code, done.err.splitlines(keepends=True)[:3]) == (
        2, f"lockllm: {message}\n".splitlines(keepends=True),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[engine]\n", "the file holds no lock_version\n  in    llm.lock\n  fix   make a lock with `lockllm lock`"),
        ("lock_version = 2\n", "lock_version 2 is newer than this lockllm reads (1)\n  in    llm.lock, line 1\n"
         "  fix   upgrade lockllm on this host"),
        ('lock_version = "1"\n', "lock_version is '1'\n  in    llm.lock, line 1\n  fix   make a new lock with `lockllm lock`"),
        ("lock_version = 0\n", "lock_version is 0\n  in    llm.lock, line 1\n  fix   make a new lock with `lockllm lock`"),
        ("lock_version = true\n", "lock_version is True\n  in    llm.lock, line 1\n  fix   make a new lock with `lockllm lock`"),
        (LOCK + "[policy]\nx = 'loose'\n", "policy x is 'loose'\n  in    llm.lock, line 6\n"
         "  fix   write one of exact, compatible, report, ignore"),
        (LOCK + "[requires]\n\"host.driver\" = 5\n", "requires of host.driver must be a text\n  in    llm.lock, line 6\n"
         "  fix   run `lockllm lock`"),
        (LOCK + "[absent]\nserve = \"x\"\n", "absent.serve must be a list of texts\n  in    llm.lock, line 6\n"
         "  fix   run `lockllm lock`"),
        (LOCK + "[checkpoint.files]\n\"a\" = { size = 1 }\n", "checkpoint.files.a must be { size = BYTES, sha256 = \"…\" }\n"
         "  in    llm.lock, line 6\n  fix   run `lockllm lock`"),
        (LOCK + f"[checkpoint.files]\n\"../a\" = {{ size = 1, sha256 = \"{'0' * 64}\" }}\n",
         "'../a' is not a valid file name inside a checkpoint\n  in    llm.lock, line 6\n  fix   remove the line, or run `lockllm lock`"),
        (LOCK + f"[checkpoint.files]\n\"/etc/passwd\" = {{ size = 1, sha256 = \"{'0' * 64}\" }}\n",
         "'/etc/passwd' is not a valid file name inside a checkpoint\n  in    llm.lock, line 6\n"
         "  fix   remove the line, or run `lockllm lock`"),
        (LOCK + "[[waive]]\nfact = 'host.gpu'\n", "the waiver of host.gpu names no value\n  in    llm.lock, line 5\n"
         "  fix   write found = the value that is accepted"),
    ],
)  # fmt: skip
def test_a_problem_of_a_lock_is_told_with_line_and_fix(folder: Path, call: Call, text: str, message: str) -> None:
    (folder / "llm.lock").write_text(text)
    (folder / "host.json").write_text(SEEN)
    done = call("verify", "--observation", "host.json")
    assert (done.code, done.err) == (2, f"lockllm: {message}\n")


MEND = "write one with `lockllm observe -o FILE`"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "this is not JSON: expecting property name enclosed in double quotes\n  in    host.json, line 1\n"
         "  fix   write it again with `lockllm observe -o FILE`"),
        ("[]", f"an observation is a JSON object\n  in    host.json\n  fix   {MEND}"),
        ("{}", f"the file holds no observation_version\n  in    host.json\n  fix   {MEND}"),
        ('{"observation_version": 2}', "observation_version 2 is newer than this lockllm reads (1)\n  in    host.json\n"
         "  fix   upgrade lockllm here"),
        ('{"observation_version": 1}', f"facts must be an object of readings\n  in    host.json\n  fix   {MEND}"),
        ('{"observation_version": 1, "fact": {}}', "an observation has no key 'fact'\n  in    host.json\n  fix   did you mean facts?"),
        ('{"observation_version": 1, "facts": {"a": 1}}', "a must be a list of readings\n  in    host.json\n"
         '  fix   write [{"value": …, "source": "…", "by": "endpoint"}]'),
        ('{"observation_version": 1, "facts": {"a": [], "a": []}}', "the key 'a' appears twice\n  in    host.json\n"
         "  fix   write it again with `lockllm observe -o FILE`"),
        ('{"observation_version": 1, "facts": {"a..b": []}}', "'a..b' is not the key of a fact\n  in    host.json\n"
         "  fix   write it as a TOML dotted key"),
        ('{"observation_version": 1, "facts": {"a": [{"value": NaN}]}}', "this JSON is nested too deeply or holds an impossible number\n"
         "  in    host.json\n  fix   write it again with `lockllm observe -o FILE`"),
        ('{"observation_version": 1, "facts": ' + "[" * 100_000, "this JSON is nested too deeply or holds an impossible number\n"
         "  in    host.json\n  fix   write it again with `lockllm observe -o FILE`"),
        ('{"observation_version": 1, "facts": {"a": [{"value": 1, "by": "gossip"}]}}', "a reading of a is by 'gossip'\n"
         "  in    host.json\n  fix   write one of library, worker, endpoint, process, plan, log, package, file, rule, default"),
        ('{"observation_version": 1, "facts": {}, "stage": "later"}', "stage is 'later'\n  in    host.json\n"
         "  fix   write one of preflight, live, all"),
    ],
)  # fmt: skip
def test_a_problem_of_an_observation_is_told(folder: Path, call: Call, text: str, message: str) -> None:
    (folder / "llm.lock").write_text(LOCK)
    (folder / "host.json").write_text(text)
    done = call("verify", "--observation", "host.json")
    assert (done.code, done.err) == (2, f"lockllm: {message}\n")


def test_a_bad_spec_leaves_the_lock_alone(folder: Path, call: Call) -> None:
    (folder / "llm.lock").write_text(LOCK)
    (folder / "llm.toml").write_text("[")
    assert call("lock").code == 2
    assert (folder / "llm.lock").read_text() == LOCK
    assert sorted(path.name for path in folder.iterdir() if path.name != ".cache") == ["llm.lock", "llm.toml", "model"]


@pytest.mark.parametrize(
    ("name", "shown"), [("\n::error::x", r"\n::error::x"), ("[red]", "[red]"), ("\x1b[31m", r"\x1b[31m")]
)
def test_foreign_text_in_an_error_is_shown_and_harmless(folder: Path, call: Call, name: str, shown: str) -> None:
    done = call("verify", name)
    assert (done.code, done.err.splitlines()[1]) == (2, f"  in    {shown}")
    assert [line[:8] for line in done.err.splitlines()] == ["lockllm:", "  in    ", "  fix   "]
