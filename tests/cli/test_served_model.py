"""What a server says it serves is held against its command and the lock: hot updates, adapters, and servers that hang."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.cli.test_init_server import ANSWERING, of_sglang, of_vllm
from tests.conftest import TINY
from tests.observe import hosts

Bodies = dict[str, Any]
LATEST = ANSWERING.replace("bodies = json", "said = lambda: json").replace("bodies.get", "said().get")
"""A stand-in that answers what a file says at each moment."""


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the metadata of both engines, and stand-ins for their servers."""
    packages = {"vllm": "0.32.0", "sglang": "0.5.23", "torch": "2.13.0", "transformers": "5.19.0"}
    made = hosts.environment(tmp_path_factory.mktemp("engines") / "venv", packages)
    (made / "bin" / "vllm").write_text(f"#!{made}/bin/python\n{LATEST}")
    (made / "bin" / "vllm").chmod(0o755)
    package = hosts.site(made) / "sglang"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(LATEST)
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("models/tiny", "models/other"):
        shutil.copytree(TINY / "model", tmp_path / name)
    (tmp_path / "alias").symlink_to("models/tiny")
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 8, "lora_alpha": 16}')
    return tmp_path


def say(home: Path, bodies: Bodies) -> None:
    (home / "new.json").write_text(json.dumps(bodies))
    os.replace(home / "new.json", home / "bodies.json")


@contextmanager
def locked(
    call: Call, home: Path, venv: Path, engine: str, words: tuple[str, ...] = ()
) -> Iterator[tuple[int, Bodies]]:
    """A server with a lock that it matches: its pid, and what it answers."""
    if engine == "vllm":
        argv: list[str | Path] = [venv / "bin" / "vllm", "serve", "models/tiny", "--max-model-len", "256", *words]
        bodies = of_vllm(words)
    else:
        argv = [venv / "bin" / "python", "-m", "sglang.launch_server", "--model-path", "models/tiny", *words]
        bodies = of_sglang(words)
        version = "v7" if any("v7" in word for word in words) else "default"
        told = {"model_path": "models/tiny", "weight_version": version}
        bodies = {**bodies, "/model_info": told, "/get_model_info": told}
    say(home, bodies)
    with hosts.running([*argv, "--port", "0"], {"BODIES": str(home / "bodies.json"), "HF_HUB_OFFLINE": "1"}, home) as (
        pid,
        _,
    ):
        assert call("init", "--pid", str(pid)).code == 0
        assert call("observe", "--pid", str(pid), "--gpu", "none", "-o", "host.json").code == 0
        made = call("lock", "--offline", "--observation", "host.json", "--accept-observed", "**")
        assert made.code == 0, made.err
        first = judged(call, pid)
        assert first["exit_code"] in (0, 3), [each for each in first["results"] if each["status"] == "mismatch"]
        yield pid, bodies


def judged(call: Call, pid: int, *more: str) -> Any:
    return call("verify", "--pid", str(pid), "--gpu", "none", "--format", "json", *more).json


def blamed(report: Any) -> set[str]:
    failed = {each["check"] for each in report["checks"] if each["status"] == "fail"}
    return failed | {each["fact"] for each in report["results"] if each["status"] == "mismatch"}


def updated(bodies: Bodies, **changes: str) -> Bodies:
    """What SGLang says after an update of its weights."""
    paths = ("/model_info", "/get_model_info", "/server_info", "/get_server_info")
    return {path: {**body, **changes} if path in paths else body for path, body in bodies.items()}


def adapter(bodies: Bodies, name: str, root: str | None) -> Bodies:
    entry = {
        "id": name,
        "object": "model",
        "owned_by": "x",
        "root": root,
        "parent": "models/tiny",
        "max_model_len": None,
    }
    data = [{**entry, "id": "models/tiny", "root": "models/tiny", "parent": None}, entry]
    held = [each for each in bodies["/v1/models"]["data"] if each["id"] != name]
    return {**bodies, "/v1/models": {"object": "list", "data": [*(held or data[:1]), entry]}}


def rooted(bodies: Bodies, root: str) -> Bodies:
    data = [{**each, "root": root} for each in bodies["/v1/models"]["data"]]
    return {**bodies, "/v1/models": {"object": "list", "data": data}}


SERVED, VERSION = "check.served_model", "checkpoint.weight_version"
UPDATES: list[tuple[dict[str, str], set[str]]] = [
    ({"model_path": "models/other", "weight_version": "disk-2"}, {SERVED, VERSION}),
    ({"model_path": "models/other"}, {SERVED}),
    ({"model_path": "/srv/gone"}, {SERVED}),
    ({"model_path": "org/another"}, {SERVED}),
    ({"weight_version": "step-40"}, {SERVED, VERSION}),
]
ADAPTERS: list[tuple[dict[str, str | None], set[str]]] = [
    ({"rt": "/srv/adapters/rt"}, {"adapters.rt.loaded"}),
    ({"rt": "org/rt"}, {"adapters.rt.loaded", "adapters.rt.repo"}),
    ({"rt": None}, {"adapters.rt.loaded"}),
    ({"a": "lora", "b.c/d": "lora"}, {"adapters.a.loaded", 'adapters."b.c/d".loaded'}),
]


def adapters(bodies: Bodies, loaded: dict[str, str | None]) -> Bodies:
    for name, root in loaded.items():
        bodies = adapter(bodies, name, root)
    return bodies


CHANGES: list[tuple[str, Callable[[Bodies], Bodies], set[str]]] = [
    *(("sglang", partial(updated, **changes), fault) for changes, fault in UPDATES),
    *(("vllm", partial(adapters, loaded=loaded), fault) for loaded, fault in ADAPTERS),
    ("sglang", partial(adapters, loaded={"rt": "/srv/adapters/rt"}), {"adapters.rt.loaded"}),
    ("vllm", partial(rooted, root="models/other"), {SERVED}),
    ("vllm", partial(rooted, root="/srv/other"), {SERVED}),
]


@pytest.mark.parametrize("engine, change, fault", CHANGES)
def test_a_server_that_serves_something_else_than_at_its_start_differs(
    call: Call, home: Path, venv: Path, engine: str, change: Callable[[Bodies], Bodies], fault: set[str]
) -> None:
    with locked(call, home, venv, engine) as (pid, bodies):
        before = judged(call, pid)
        say(home, change(bodies))
        for stage in ("all", "live"):
            after = judged(call, pid, "--stage", stage)
            assert after["exit_code"] == 1
            assert (
                blamed(after) - blamed(before) == fault - {"checkpoint.repo"} or blamed(after) - blamed(before) == fault
            )
        say(home, bodies)
        assert judged(call, pid)["exit_code"] == before["exit_code"]


SPELLINGS: list[tuple[str, tuple[str, ...], Callable[[Bodies], Bodies]]] = [
    ("sglang", (), partial(updated, model_path="./models/tiny/")),
    ("sglang", (), partial(updated, model_path="alias")),
    ("sglang", ("--weight-version", "v7"), dict),
    ("sglang", ("--weight-version=v7",), dict),
    ("vllm", (), partial(rooted, root="models/../models/tiny")),
    ("vllm", ("--served-model-name", "nice"), dict),
    ("vllm", ("--enable-lora", "--lora-modules", "a=lora"), partial(adapters, loaded={"a": "./lora"})),
]


@pytest.mark.parametrize("engine, words, change", SPELLINGS)
def test_another_spelling_of_what_is_served_is_no_difference(
    call: Call, home: Path, venv: Path, engine: str, words: tuple[str, ...], change: Callable[[Bodies], Bodies]
) -> None:
    with locked(call, home, venv, engine, words) as (pid, bodies):
        say(home, change(bodies))
        after = judged(call, pid)
        assert blamed(after) & {"check.served_model", "checkpoint.weight_version", "adapters.a.loaded"} == set()
        assert after["exit_code"] != 1, blamed(after)


@pytest.mark.parametrize(
    "change", [lambda said: adapter(said, "a", "/srv/b"), lambda said: rooted(of_vllm(()), "models/tiny")]
)
def test_an_adapter_of_the_command_that_was_exchanged_or_unloaded_is_told(
    call: Call, home: Path, venv: Path, change: Callable[[Bodies], Bodies]
) -> None:
    with locked(call, home, venv, "vllm", ("--enable-lora", "--lora-modules", "a=lora")) as (pid, bodies):
        say(home, change(bodies))
        assert judged(call, pid)["exit_code"] == 1


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_stopped_server_is_unknown_and_one_that_goes_on_is_not(
    call: Call, home: Path, venv: Path, engine: str
) -> None:
    with locked(call, home, venv, engine) as (pid, _):
        before = judged(call, pid, "--stage", "live", "--quick")
        os.kill(pid, signal.SIGSTOP)
        try:
            report = judged(call, pid, "--stage", "live", "--quick", "--timeout", "0.3")
            told = call("verify", "--pid", str(pid), "--stage", "live", "--quick", "--timeout", "0.3")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert blamed(report) == set()
        assert (report["exit_code"], report["status"], told.code) == (3, "unknown", 3)
        assert f"pid {pid} is stopped" in " ".join(told.out.split())
        assert judged(call, pid, "--stage", "live", "--quick")["exit_code"] == before["exit_code"] == 0


OLD, NEW = "1" * 40, "2" * 40


def test_after_a_branch_moved_the_new_commit_is_not_told_as_what_the_server_serves(
    call: Call, home: Path, venv: Path
) -> None:
    folder = home / "hub" / "models--acme--tiny"
    (folder / "refs").mkdir(parents=True)
    for commit in (OLD, NEW):
        shutil.copytree(TINY / "model", folder / "snapshots" / commit)
    (folder / "snapshots" / NEW / "generation_config.json").write_text('{"temperature": 0.25}')
    (folder / "refs" / "main").write_text(OLD)
    env = {"HF_HUB_CACHE": str(home / "hub"), "HF_HUB_OFFLINE": "1", "BODIES": str(home / "bodies.json")}
    say(home, rooted(of_vllm(()), "acme/tiny"))
    for revision in ((), ("--revision", OLD)):
        (folder / "refs" / "main").write_text(OLD)
        with hosts.running([venv / "bin" / "vllm", "serve", "acme/tiny", "--port", "0", *revision], env, home) as (
            pid,
            _,
        ):
            look = ("observe", "--pid", str(pid), "--gpu", "none")
            before = call(*look).json
            assert before["facts"]["checkpoint.commit"][0]["value"] == OLD
            os.replace(shutil.copy(folder / "refs" / "main", home / "ref"), folder / "refs" / "main")
            (folder / "refs" / "main").write_text(NEW)
            after = call(*look).json
        if revision:
            assert after["facts"]["checkpoint.commit"] == before["facts"]["checkpoint.commit"]
            continue
        assert not any(key.startswith(("checkpoint.files.", "sampling.")) for key in after["facts"])
        assert after["checks"]["check.server_current"]["status"] == "fail"
        assert f"commit {NEW[:12]} after the server started" in after["checks"]["check.server_current"]["detail"]


def test_a_server_without_a_model_is_no_match_of_a_lock_of_one(call: Call, home: Path, venv: Path) -> None:
    with locked(call, home, venv, "sglang") as (_, bodies):
        argv: list[str | Path] = [venv / "bin" / "python", "-m", "sglang.launch_server", "--tp", "1"]
        with hosts.running(
            [*argv, "--port", "0"], {"BODIES": str(home / "bodies.json"), "HF_HUB_OFFLINE": "1"}, home
        ) as (pid, _):
            seen = call("observe", "--pid", str(pid), "--gpu", "none").json
            assert not any(key.startswith("checkpoint.files.") for key in seen["facts"])
            assert "without a model" in seen["unobserved"]["checkpoint"]["reason"]
            assert judged(call, pid)["exit_code"] != 0
            assert bodies
