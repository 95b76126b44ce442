"""`lock --write` and `init --update` edit a person's spec in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockllm.documents import lock as locks
from tests.cli.conftest import Call, observation

SPEC = """\
# What we serve.
[checkpoint]
path = "model"   # ours

[engine]
name = "vllm"
version = ">=0.10,<0.11"

# no fp16 here
[serve]
dtype = "bfloat16"  # the checkpoint's own
max_model_len = 512

[variant.big.serve]
max_num_seqs = 4
"""
FACTS = {
    "engine.name": "vllm", "engine.version": "0.10.2", "serve.dtype": "float16", "serve.kv_cache_dtype": "float16", "serve.seed": 7,
    "serve.max_model_len": 512,
}  # fmt: skip
ACCEPT = ("--observation", "host.json", "--accept-observed", "serve.*", "--gpu", "none")


@pytest.fixture
def home(folder: Path) -> Path:
    """A spec with comments and a variant, and what its host shows."""
    (folder / "llm.toml").write_text(SPEC)
    (folder / "host.json").write_text(observation(FACTS))
    return folder


def test_accepted_values_are_written_into_the_spec_in_place(home: Path, call: Call) -> None:
    done = call("lock", *ACCEPT, "--write")
    assert done.code == 0
    edited = SPEC.replace('dtype = "bfloat16"', 'dtype = "float16"')
    edited = edited.replace("max_model_len = 512\n", "max_model_len = 512\nseed = 7\n")
    assert (home / "llm.toml").read_text() == edited
    assert done.err.startswith('wrote llm.toml:\n  serve.dtype = "float16"\n  serve.seed = 7\nwrote llm.lock: ')
    assert "to keep it" not in done.err
    for name in ("llm.lock", "llm.big.lock"):
        lock = locks.read((home / name).read_text(), name)
        assert (lock.get("serve.dtype"), lock.get("serve.seed"), lock.accepted) == ("float16", 7, ())
        assert lock.get("serve.kv_cache_dtype") == "float16"
    before = (home / "llm.lock").read_bytes()
    assert call("lock", "--check").code == 0
    assert call("lock", "--observation", "host.json", "--gpu", "none").code == 0
    assert (home / "llm.lock").read_bytes() == before


def test_a_dry_run_shows_the_change_of_the_spec_and_writes_nothing(home: Path, call: Call) -> None:
    done = call("lock", *ACCEPT, "--write", "--dry-run")
    assert done.code == 0
    assert done.out.startswith("--- llm.toml\n+++ llm.toml\n@@ ")
    assert '\n-dtype = "bfloat16"  # the checkpoint\'s own\n+dtype = "float16"  # the checkpoint\'s own\n' in done.out
    assert "llm.lock -> as resolved now" in done.out
    assert (home / "llm.toml").read_text() == SPEC
    assert not (home / "llm.lock").exists()
    assert call("lock", *ACCEPT, "--write", "--dry-run", "--format", "json").out.startswith("{")


def test_what_was_accepted_earlier_can_be_written_later(home: Path, call: Call) -> None:
    assert call("lock", *ACCEPT).code == 0
    assert (home / "llm.toml").read_text() == SPEC
    assert call("lock", "--write", "--gpu", "none").code == 0
    assert "seed = 7\n" in (home / "llm.toml").read_text()
    assert locks.read((home / "llm.lock").read_text()).accepted == ()
    again = call("lock", "--write", "--gpu", "none")
    assert again.err.startswith("llm.toml stays as it is: ")


def test_what_the_host_lacks_is_removed_from_the_spec(home: Path, call: Call) -> None:
    (home / "llm.toml").write_text(
        SPEC.replace("max_model_len", "args.enable_sleep_mode = true  # nights\nmax_model_len")
    )
    (home / "host.json").write_text(
        observation({**FACTS, "serve.dtype": "bfloat16", "serve.kv_cache_dtype": "bfloat16"}, complete=["serve.args"])
    )
    done = call("lock", *ACCEPT, "--write")
    assert done.code == 0, done.err
    assert (home / "llm.toml").read_text() == SPEC.replace("max_model_len = 512\n", "max_model_len = 512\nseed = 7\n")
    assert "  removed serve.args.enable_sleep_mode\n" in done.err


def test_writing_needs_a_file(home: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SPEC.encode())))
    done = call("lock", "-", "--write", "-o", "out.lock")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("lockllm: --write needs a file to edit\n")


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        (["--max-model-len", "1024", "--dtype", "bfloat16"], "max_model_len = 512", "max_model_len = 1024"),
        (["--max-model-len", "512", "--dtype", "bfloat16", "--enable-sleep-mode"], "max_model_len = 512\n",
         "max_model_len = 512\nargs.enable_sleep_mode = true\n"),
        (["--max-model-len", "512", "--dtype", "bfloat16"], "", ""),
        (["--max-model-len", "512", "--dtype", "bf16", "--port", "9"], "", ""),
    ],
)  # fmt: skip
def test_a_command_is_merged_into_the_spec(home: Path, call: Call, command: list[str], old: str, new: str) -> None:
    shown = call("init", "--update", "--dry-run", "--", "vllm", "serve", "./model", *command)
    assert (home / "llm.toml").read_text() == SPEC
    done = call("init", "--update", "--", "vllm", "serve", "./model", *command)
    assert (shown.code, done.code) == (0, 0)
    assert (home / "llm.toml").read_text() == SPEC.replace(old, new)
    assert shown.out.startswith("--- llm.toml\n") is bool(old)
    assert done.err == ("llm.toml is up to date\n" if not old else done.err)


def test_what_was_not_seen_stays_and_is_named(home: Path, call: Call) -> None:
    done = call("init", "--update", "--", "vllm", "serve", "org/other", "--max-model-len", "512")
    assert (home / "llm.toml").read_text() == SPEC
    assert done.err == (
        "lockllm: warning: the spec names the checkpoint model, and org/other was seen: [checkpoint] stays as it is\n"
        "lockllm: warning: serve.dtype of the spec was not seen; remove the line if it is not meant\n"
        "llm.toml is up to date\n"
    )


def test_an_update_of_nothing_writes_a_new_spec(home: Path, call: Call) -> None:
    done = call("init", "--update", "-o", "new.toml", "--", "vllm", "serve", "./model")
    assert (done.code, done.err) == (0, "wrote new.toml; next: lockllm lock\n")


def test_a_dry_run_of_init_shows_the_whole_file(home: Path, call: Call) -> None:
    done = call("init", "-o", "new.toml", "--dry-run", "--", "vllm", "serve", "./model")
    assert done.out.startswith("--- new.toml\n+++ new.toml\n@@ -0,0 +1,")
    assert not (home / "new.toml").exists()


def test_the_spec_of_a_pyproject_is_merged_in_its_table(home: Path, call: Call) -> None:
    table = SPEC.replace("[", "[tool.lockllm.")
    (home / "pyproject.toml").write_text(f'[project]\nname = "x"  # y\n\n{table}')
    done = call(
        "init",
        "--update",
        "-o",
        "pyproject.toml",
        "--",
        "vllm",
        "serve",
        "./model",
        "--max-model-len",
        "9",
        "--dtype",
        "bfloat16",
    )
    assert done.code == 0, done.err
    assert (home / "pyproject.toml").read_text() == f'[project]\nname = "x"  # y\n\n{table}'.replace("= 512", "= 9")
