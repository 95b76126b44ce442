"""An engine that is installed in a release that no table has: every command reads its options from its own source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm.documents import lock as locks
from lockllm.engines.vllm import engine as vllm
from tests.cli.conftest import SPEC, Call
from tests.engines.future import SGLANG, SGLANG_VERSION, VERSION, VLLM
from tests.observe import hosts

MOVED = "serve.gpu_memory_share"


def install(home: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """An environment with that package: its source would end any program that imports it."""
    hosts.environment(home, {"torch": "2.8.0"})
    hosts.install(hosts.site(home), name, version, files=files)
    return home


@pytest.fixture
def future(folder: Path) -> Path:
    """A serving environment with vLLM of a release that no table has, beside a spec that asks for it."""
    home = install(folder / "venv", "vllm", VERSION, VLLM)
    hosts.program(home, "vllm")
    (folder / "llm.toml").write_text(SPEC.replace("0.10.2", VERSION))
    return home


def command(home: Path, *words: str) -> tuple[str, ...]:
    return (str(home / "bin" / "vllm"), "serve", "model", *words)


def check(told: Any, name: str = "check.flags_accepted") -> tuple[str, str]:
    found = next(each for each in told["checks"] if each["check"] == name)
    return found["status"], found["detail"]


def locked(folder: Path) -> locks.Lock:
    return locks.read((folder / "llm.lock").read_text(), "llm.lock")


def test_lock_pins_constant_defaults_and_leaves_the_rest_unpinned(folder: Path, future: Path, call: Call) -> None:
    done = call("lock", "--python", future / "bin" / "python")
    assert done.code == 0
    lock = locked(folder)
    assert lock.get(MOVED) == 0.87
    assert lock.get("serve.trust_remote_code") is False
    assert f"{MOVED.partition('.')[2]} = 0.87  # via default" in (folder / "llm.lock").read_text()
    for key in ("serve.dtype", "serve.max_num_seqs", "serve.enable_prefix_caching"):
        assert lock.get(key) is None
        assert f"  {key}: vLLM {VERSION} is newer than {vllm.newest}, the newest whose rules were read" in done.err
    assert call("lock", "--python", future / "bin" / "python", "--strict").code == 1


def test_one_sampling_default_says_nothing_of_the_others(folder: Path, future: Path, call: Call) -> None:
    with (folder / "llm.toml").open("a") as spec:
        spec.write("\n[sampling]\ntemperature = 0\n")
    call("lock", "--python", future / "bin" / "python")
    lock = locked(folder)
    assert lock.get("sampling.temperature") == 0
    assert {("sampling", "top_p"), ("sampling", "top_k"), ("sampling", "max_tokens")} <= set(lock.unpinned)


def test_lock_without_the_package_guesses_no_default(folder: Path, future: Path, call: Call) -> None:
    assert call("lock").code == 0
    assert locked(folder).get(MOVED) is None


def test_what_was_locked_verifies_where_the_package_is(folder: Path, future: Path, call: Call) -> None:
    call("lock", "--python", future / "bin" / "python")
    with hosts.running(command(future, "--weave-order", "over"), cwd=folder) as (pid, _):
        done = call("verify", "--pid", str(pid), "--stage", "preflight", "--format", "json")
    told = {each["fact"]: each["status"] for each in done.json["results"]}
    assert told[MOVED] == "match"
    assert told["serve.args.weave_order"] == "mismatch"
    assert check(done.json) == ("pass", f"vLLM {VERSION} takes every option")


def test_a_default_that_moved_is_a_mismatch(folder: Path, future: Path, call: Call) -> None:
    call("lock", "--python", future / "bin" / "python")
    text = (folder / "llm.lock").read_text()
    (folder / "llm.lock").write_text(text.replace("gpu_memory_share = 0.87", "gpu_memory_share = 0.92"))
    with hosts.running(command(future), cwd=folder) as (pid, _):
        done = call("verify", "--pid", str(pid), "--stage", "preflight", "--format", "json")
    found = next(each for each in done.json["results"] if each["fact"] == MOVED)
    assert (found["status"], found["expected"], found["found"], found["source"]) == (
        "mismatch", 0.92, 0.87, "vllm/config/cache.py: gpu_memory_utilization",
    )  # fmt: skip


def test_exec_refuses_an_option_that_the_release_dropped(folder: Path, future: Path, call: Call) -> None:
    call("lock", "--python", future / "bin" / "python")
    done = call("exec", "--", *command(future, "--swap-space", "4"))
    assert done.code == 1
    assert "--swap-space: no such option in this release" in done.err


def test_inspect_reads_a_command_by_the_package_that_it_would_run(future: Path, call: Call) -> None:
    done = call("inspect", "--format", "json", "--", *command(future, "--weave-ranks", "2", "3", "--swap-space", "4"))
    assert done.json["facts"]["serve.args.weave_ranks"] == [2, 3]
    assert check(done.json) == ("fail", "--swap-space: no such option in this release")
    named = call("inspect", "--format", "json", "--engine-version", VERSION, "--", *command(future, "-wo", "over"))
    assert check(named.json) == ("pass", f"vLLM {VERSION} takes every option")
    other = call("inspect", "--format", "json", "--engine-version", "0.33.0", "--", *command(future, "-wo", "over"))
    assert check(other.json)[0] == "fail"


def test_a_spec_is_made_of_a_command_by_the_package_on_path(
    folder: Path, future: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(future / "bin"))
    assert call("init", "--force", "--", "vllm", "serve", "model", "--tail-words", "[1, 2]", "-wo", "over").code == 0
    text = (folder / "llm.toml").read_text()
    assert f'version = "{VERSION}"' in text
    assert "tail_words = [1, 2]" in text
    assert 'weave_order = "over"' in text


def test_a_source_that_cannot_be_read_is_said_and_the_newest_table_holds(folder: Path, call: Call) -> None:
    home = install(folder / "venv", "vllm", VERSION, {"vllm/__init__.py": "", "vllm/engine/arg_utils.py": "def ("})
    hosts.program(home, "vllm")
    (folder / "llm.toml").write_text(SPEC.replace("0.10.2", VERSION))
    done = call("lock", "--python", home / "bin" / "python")
    assert locked(folder).get(MOVED) is None
    assert f"whose rules were read; the options of vLLM {VERSION} cannot be read from its source" in done.err
    with hosts.running(command(home, "--weave-order", "over"), cwd=folder) as (pid, _):
        seen = call("observe", "--pid", str(pid), "--stage", "preflight")
    assert seen.json["checks"]["check.flags_accepted"]["status"] == "unknown"
    why = f"the options of vLLM {VERSION} cannot be read from its source: vllm/entrypoints adds no --dtype"
    assert any(why in each for each in seen.json["warnings"])
    assert MOVED not in seen.json["facts"]


def test_a_package_that_is_not_there_is_said(folder: Path, call: Call) -> None:
    home = install(folder / "venv", "vllm", VERSION, {})
    hosts.program(home, "vllm")
    with hosts.running(command(home), cwd=folder) as (pid, _):
        seen = call("observe", "--pid", str(pid), "--stage", "preflight")
    why = f"the source of vllm {VERSION} is not found (pid {pid})"
    assert any(why in each for each in seen.json["warnings"])


def test_sglang_is_read_alike(folder: Path, call: Call) -> None:
    home = install(folder / "venv", "sglang", SGLANG_VERSION, SGLANG)
    (folder / "llm.toml").write_text(SPEC.replace("vllm", "sglang").replace("0.10.2", SGLANG_VERSION))
    assert call("lock", "--python", home / "bin" / "python").code == 0
    lock = locked(folder)
    assert (lock.get("serve.data_parallel_size"), lock.get("serve.dtype")) == (2, None)
    line = (str(home / "bin" / "python"), "-m", "sglang.launch_server", "--model", "model", "--loom-order", "sideways")
    done = call("exec", "--", *line)
    assert done.code == 1
    assert "'sideways' is none of its words in this release: over, under" in " ".join(done.err.split())


def test_checking_a_lock_needs_no_package(folder: Path, future: Path, call: Call) -> None:
    call("lock", "--python", future / "bin" / "python")
    assert call("lock", "--check").code == 0
    text = (folder / "llm.toml").read_text()
    (folder / "llm.toml").write_text(text + "\n[serve]\ngpu_memory_share = 0.5\n")
    assert call("lock", "--check").out.startswith("llm.lock is stale: 1 fact\n  serve.gpu_memory_share\n")


def test_locking_again_without_the_package_keeps_what_it_stated(folder: Path, future: Path, call: Call) -> None:
    call("lock", "--python", future / "bin" / "python")
    first = locked(folder)
    call("lock")
    again = locked(folder)
    assert {path: value for path, value in again.values.items() if path[0] == "serve"} == {
        path: value for path, value in first.values.items() if path[0] == "serve"
    }
    assert {path: why for path, why in again.unpinned.items() if path[0] == "serve"} == {
        path: why for path, why in first.unpinned.items() if path[0] == "serve"
    }
    call("lock", "--upgrade")
    assert locked(folder).get(MOVED) is None
