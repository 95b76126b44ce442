"""`lockllm diff`: files, git revisions, and git's own diff driver, in a real repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call

LOCKLLM = Path(sys.executable).parent / "lockllm"
LOCK = """\
# Locked by lockllm from llm.toml. Edit that file, then run `lockllm lock`.

lock_version = 1

[engine]
name = "vllm"
version = "0.10.2"

[serve]
dtype = "bfloat16"  # via rule
max_num_seqs = 256  # via default
seed = 0  # via llm.toml

[policy]
"host.driver" = "compatible"

[checkpoint.files]
"config.json" = { size = 663, sha256 = "%s" }
""" % ("5" * 64)
UPGRADED = LOCK.replace("0.10.2", "0.11.0").replace("seqs = 256", "seqs = 1024")
WEAKER = LOCK.replace('"compatible"', '"ignore"').replace(
    "[checkpoint.files]", '[requires]\n"host.driver" = ">=5"\n\n[checkpoint.files]'
)


def git(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", **who, **(env or {})}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=True
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits, and a third state in the working tree."""
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "sub").mkdir()
    for text in (LOCK, UPGRADED):
        (tmp_path / "llm.lock").write_text(text)
        (tmp_path / "sub" / "llm.lock").write_text(text)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", "lock")
    (tmp_path / "llm.lock").write_text(UPGRADED.replace("seed = 0", "seed = 7"))
    return tmp_path


def moved(call: Call, *sides: str) -> dict[str, tuple[object, object]]:
    done = call("diff", *sides, "--format", "json")
    assert done.code == 0, done.err
    return {each["fact"]: (each["before"], each["after"]) for each in done.json["changes"]}


ENGINE = {"engine.version": ("0.10.2", "0.11.0"), "serve.max_num_seqs": (256, 1024)}
SEED = {"serve.seed": (0, 7)}


@pytest.mark.parametrize(
    ("sides", "changes"),
    [
        ((), SEED),
        (("HEAD",), SEED),
        (("HEAD~1",), {**ENGINE, **SEED}),
        (("HEAD~1", "HEAD"), ENGINE),
        (("HEAD~1:llm.lock", "HEAD:sub/llm.lock"), ENGINE),
        (("main~1:llm.lock", "llm.lock"), {**ENGINE, **SEED}),
        (("HEAD~1", "sub/llm.lock"), ENGINE),
        (("sub/llm.lock", "llm.lock"), SEED),
        (("llm.lock", "llm.lock"), {}),
        (("/dev/null", "sub/llm.lock"), None),
    ],
)
def test_either_side_is_a_file_or_a_revision(
    repository: Path, call: Call, sides: tuple[str, ...], changes: dict[str, object] | None
) -> None:
    found = moved(call, *sides)
    assert found == changes if changes is not None else len(found) == 7


def test_a_file_that_exists_wins_over_a_revision(repository: Path, call: Call) -> None:
    (repository / "HEAD~1").write_text(LOCK.replace("seed = 0", "seed = 9"))
    assert moved(call, "HEAD~1")["serve.seed"] == (9, 7)


def test_revisions_are_told_from_the_folder_that_one_is_in(
    repository: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "sub")
    assert moved(call, "HEAD~1") == ENGINE
    assert moved(call, "HEAD~1:llm.lock", "llm.lock") == ENGINE


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (("nothing",), "'nothing' is neither a file nor a lock that git knows: invalid object name 'nothing'"),
        (
            ("HEAD:no.lock",),
            "'HEAD:no.lock' is neither a file nor a lock that git knows: path 'no.lock' does not exist in 'HEAD'",
        ),
        ((":llm.lock2",), "':llm.lock2' is neither a file nor a git revision"),
        (("--output=stolen:llm.lock",), None),
        (("HEAD", "--", "-x:llm.lock"), "'-x:llm.lock' is neither a file nor a git revision"),
        (("--end-of-options", "--", "--output=stolen"), "'--output=stolen' is neither a file nor a git revision"),
        (("a", "b", "c"), "diff compares two locks, found 3 arguments"),
    ],
)
def test_what_is_neither_file_nor_revision_is_told(
    repository: Path, call: Call, sides: tuple[str, ...], message: str | None
) -> None:
    done = call("diff", *sides)
    fix = "lockllm diff BEFORE AFTER" if len(sides) == 3 and sides[0] == "a" else "lockllm diff HEAD~1 llm.lock"
    assert (done.code, done.out) == (2, "")
    if message is not None:
        assert done.err == f"lockllm: {message}\n  in    the command line\n  fix   {fix}\n"
    assert not (repository / "stolen").exists()


def test_outside_a_repository_that_is_told(tmp_path: Path, call: Call) -> None:
    (tmp_path / "llm.lock").write_text(LOCK)
    done = call("diff", "HEAD")
    assert done.code == 2
    assert done.err.startswith("lockllm: 'HEAD' is neither a file nor a lock that git knows: not a git repository")


def test_without_git_two_files_do(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llm.lock").write_text(LOCK)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert call("diff", "llm.lock", "llm.lock").code == 0
    done = call("diff", "HEAD", "llm.lock")
    assert (done.code, done.err) == (
        2, "lockllm: there is no file 'HEAD', and git is not installed\n  in    the command line\n  fix   name two files\n",
    )  # fmt: skip


@pytest.mark.parametrize(("after", "code"), [(LOCK, 0), (UPGRADED, 1), (WEAKER, 1)])
def test_the_exit_code_says_whether_anything_moved_on_request(
    tmp_path: Path, call: Call, after: str, code: int
) -> None:
    (tmp_path / "a.lock").write_text(LOCK)
    (tmp_path / "b.lock").write_text(after)
    assert call("diff", "a.lock", "b.lock").code == 0
    assert call("diff", "a.lock", "b.lock", "--exit-code").code == code


def test_a_weaker_policy_is_shown(tmp_path: Path, call: Call) -> None:
    (tmp_path / "a.lock").write_text(LOCK)
    (tmp_path / "b.lock").write_text(WEAKER)
    assert moved(call, "a.lock", "b.lock") == {
        'policy."host.driver"': ("compatible", "ignore"), 'requires."host.driver"': (None, ">=5"),
    }  # fmt: skip
    out = call("diff", "a.lock", "b.lock").out
    assert "compatible -> ignore" in out
    assert out.splitlines()[-1] == "verdict   rules: hosts are judged by other rules"


def test_an_upgrade_is_grouped_with_the_defaults_that_it_moves(tmp_path: Path, call: Call) -> None:
    (tmp_path / "a.lock").write_text(LOCK)
    (tmp_path / "b.lock").write_text(UPGRADED)
    changes = call("diff", "a.lock", "b.lock", "--format", "json").json["changes"]
    assert {each["fact"]: each["because"] for each in changes} == {
        "engine.version": None, "serve.max_num_seqs": "engine.version",
    }  # fmt: skip


def test_a_file_that_moved_is_told_from_one_that_changed(tmp_path: Path, call: Call) -> None:
    (tmp_path / "a.lock").write_text(LOCK)
    (tmp_path / "b.lock").write_text(LOCK.replace('"config.json"', '"other.json"'))
    done = call("diff", "a.lock", "b.lock", "--format", "json").json
    assert {each["fact"]: (each["change"], each.get("moved_to"), each.get("moved_from")) for each in done["changes"]} == {
        'checkpoint.files."config.json"': ("removed", 'checkpoint.files."other.json"', None),
        'checkpoint.files."other.json"': ("added", None, 'checkpoint.files."config.json"'),
    }  # fmt: skip
    assert done["verdict"] == "nothing"


@pytest.fixture
def driven(repository: Path) -> Path:
    """The repository, in which git shows locks by us."""
    (repository / ".gitattributes").write_text("*.lock diff=lockllm\n")
    git(repository, "config", "diff.lockllm.command", f"{LOCKLLM} diff")
    return repository


def test_git_shows_locks_by_its_driver(driven: Path) -> None:
    out = git(driven, "diff", "--ext-diff", "HEAD").stdout
    assert out == (
        "llm.lock -> llm.lock: 1 change\n\nserve.seed  0 -> 7\n    noise (last bits only): unseeded requests draw other tokens\n\n"
        "verdict   noise: only the last bits differ, so near-ties may flip\n"
    )
    out = git(driven, "diff", "--ext-diff", "HEAD~1", "HEAD").stdout
    assert out.count("engine.version") == 2
    assert out.count("verdict") == 2


def test_git_shows_new_deleted_and_renamed_locks(driven: Path) -> None:
    (driven / "new.lock").write_text(LOCK)
    (driven / "sub" / "llm.lock").unlink()
    git(driven, "add", "-A", "new.lock", "sub")
    out = git(driven, "diff", "--ext-diff", "--cached", "HEAD", "--no-renames").stdout
    rule = 'policy."host.driver"  {} compatible\n    changes how hosts are judged: differences are judged otherwise\n'
    assert out == (
        f"new.lock -> new.lock: new lock, 6 facts\n\n{rule.format('added')}"
        f"sub/llm.lock -> sub/llm.lock: lock removed, 6 facts\n\n{rule.format('removed, was')}"
    )
    whole = git(
        driven, "-c", f"diff.lockllm.command={LOCKLLM} diff --full", "diff", "--ext-diff", "--cached", "HEAD"
    ).stdout
    assert "engine.version" in whole
    git(driven, "reset", "-q", "--hard")
    git(driven, "mv", "sub/llm.lock", "moved.lock")
    (driven / "moved.lock").write_text(UPGRADED.replace("seed = 0", "seed = 8"))
    git(driven, "add", "-A")
    out = git(driven, "diff", "--ext-diff", "--cached", "-M", "HEAD", "--", "sub", "moved.lock").stdout
    assert "sub/llm.lock -> moved.lock: 1 change" in out
    assert "serve.seed  0 -> 8" in out


def test_git_shows_a_lock_in_conflict(driven: Path) -> None:
    git(driven, "checkout", "-qf", "HEAD~1")
    (driven / "llm.lock").write_text(LOCK.replace("seed = 0", "seed = 5"))
    git(driven, "commit", "-qam", "other")
    git(driven, "config", "merge.conflictStyle", "merge")
    (driven / "llm.lock").write_text(LOCK.replace("seed = 0", "seed = 6"))
    git(driven, "stash", "-q")
    git(driven, "checkout", "-qf", "main")
    (driven / "llm.lock").write_text(UPGRADED.replace("seed = 0", "seed = 1"))
    git(driven, "commit", "-qam", "ours")
    subprocess.run(["git", "stash", "apply"], cwd=driven, capture_output=True, check=False)
    out = git(driven, "diff", "--ext-diff", "--cached").stdout
    assert out == "llm.lock has merge conflicts: resolve them, or run `lockllm lock`\n"


def test_git_log_shows_locks_too(driven: Path) -> None:
    out = git(driven, "log", "-p", "--ext-diff", "-1", "--format=", "--", "llm.lock").stdout
    assert "serve.max_num_seqs  256 -> 1024" in out
