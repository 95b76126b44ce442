"""What moves under a running server, or while a host is looked at, is no match: real files, real processes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockllm.facts.fact import Stage
from lockllm.facts.observation import Check, Observation
from lockllm.observe import Request, observe
from lockllm.observe.server import model_files
from tests.conftest import TINY
from tests.observe import hosts

NAME = "generation_config.json"
Act = Callable[[Path], object]


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hosts.environment(tmp_path_factory.mktemp("host") / "venv", {"vllm": "0.10.2"})


@pytest.fixture
def home(venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment, with the model and a good copy of it beside it; every file is old by its time of modification."""
    monkeypatch.setenv("LOCKLLM_CACHE", str(tmp_path / "cache"))
    made = tmp_path / "venv"
    made.symlink_to(venv)
    hosts.program(made, "vllm")
    shutil.copytree(TINY / "model", tmp_path / "model")
    good = shutil.copytree(TINY / "model", tmp_path / "good")
    for path in (tmp_path / "model", good):
        for file in path.iterdir():
            os.utime(file, (10**9, 10**9))
    return made


@contextmanager
def server(home: Path) -> Iterator[int]:
    """A stand-in for a server of the model."""
    with hosts.running([home / "bin/vllm", "serve", home.parent / "model"]) as (pid, _):
        yield pid


def look(pid: int, **words: Any) -> Observation:
    return observe(Request(pid=pid, gpu="none", cache="any", timeout=0.3, **words))


def check(seen: Observation, name: str) -> Check:
    return next(each for each in seen.checks if each.name == f"check.{name}")


def held(seen: Observation, name: str) -> Any:
    path = ("checkpoint", "files", name)
    return next((reading.value for reading in seen.readings if reading.fact.path == path), None)


def in_place(model: Path) -> None:
    """`cp good model`."""
    (model / NAME).write_bytes((model.parent / "good" / NAME).read_bytes())


def with_its_time(model: Path) -> None:
    """`cp -p good model`."""
    in_place(model)
    shutil.copystat(model.parent / "good" / NAME, model / NAME)


def renamed(model: Path) -> None:
    """`rsync -a good/ model/`: a new file with the old times, renamed into its place."""
    shutil.copy2(model.parent / "good" / NAME, model / ".new")
    (model / ".new").replace(model / NAME)


def unpacked(model: Path) -> None:
    """`tar -x`, which removes what is there first."""
    with tarfile.open(model.parent / "model.tar", "w") as out:
        out.add(model.parent / "good" / NAME, NAME)
    (model / NAME).unlink()
    with tarfile.open(model.parent / "model.tar") as archive:
        (member,) = archive.getmembers()
        (model / NAME).write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
    os.utime(model / NAME, (member.mtime, member.mtime))


def moved(model: Path) -> None:
    """`mv good model`: the same inode as ever, with its times."""
    (model.parent / "good" / NAME).replace(model / NAME)


def linked(model: Path) -> None:
    """`ln -f good model`."""
    (model / NAME).unlink()
    os.link(model.parent / "good" / NAME, model / NAME)


def pointed(model: Path) -> None:
    """`ln -sf good model`: the link is new, what it leads to is old."""
    (model / "store").mkdir()
    (model.parent / "good" / NAME).replace(model / "store" / NAME)
    (model / NAME).unlink()
    (model / NAME).symlink_to(f"store/{NAME}")


BACK = [in_place, with_its_time, renamed, unpacked, moved, linked, pointed]


@pytest.mark.parametrize(
    "back, looked",
    [*((act, False) for act in BACK), (with_its_time, True), (renamed, True)],
    ids=lambda each: each.__name__ if callable(each) else "after a look" if each else "",
)
def test_a_file_that_is_put_back_under_a_server_is_no_match_of_what_it_loaded(
    home: Path, back: Act, looked: bool
) -> None:
    model = home.parent / "model"
    good = (model / NAME).read_bytes()
    (model / NAME).write_text('{"temperature": 1.9}')
    os.utime(model / NAME, (10**9, 10**9))
    with server(home) as pid:
        if looked:
            look(pid)
        back(model)
        assert (model / NAME).read_bytes() == good
        for _ in range(2):
            found = check(look(pid), "server_current")
            assert found.status.value == "fail"
            assert found.detail.startswith(f"changed or replaced since the server started: {NAME}")


@pytest.mark.parametrize("words", [[], ["-c"], ["-d", "now"]])
def test_a_file_that_is_merely_touched_is_what_it_was(home: Path, words: list[str]) -> None:
    with server(home) as pid:
        subprocess.run(["touch", *words, home.parent / "model" / NAME], check=True)
        for _ in range(3):
            assert check(look(pid), "server_current").status.value == "pass"
            assert check(look(pid, stage=Stage.LIVE), "server_current").status.value == "pass"


TOUCHES = {
    "touched": os.utime,
    "touched to another day": lambda path: os.utime(path, (10**9 + 5, 10**9 + 5)),
    "linked by a backup": lambda path: os.link(path, path.parent.parent / "backup"),
    "another mode": lambda path: path.chmod(0o600),
    "synchronized again": lambda path: renamed(path.parent),
    "copied again": lambda path: in_place(path.parent),
}


@pytest.mark.parametrize("act", TOUCHES)
def test_bytes_that_a_look_has_seen_since_the_start_are_known_to_be_loaded(home: Path, act: str) -> None:
    path = home.parent / "model" / NAME
    with server(home) as pid:
        look(pid)
        TOUCHES[act](path)
        for _ in range(2):
            assert check(look(pid), "server_current").status.value == "pass"
        path.write_text('{"temperature": 1.9}')
        assert check(look(pid), "server_current").status.value == "fail"
    with server(home) as pid:  # it loads what lies there now
        assert check(look(pid), "server_current").status.value == "pass"


def test_a_look_before_the_start_proves_nothing(home: Path) -> None:
    model = home.parent / "model"
    with server(home) as pid:
        look(pid)
    (model / NAME).write_text('{"temperature": 1.9}')
    with server(home) as pid:
        with_its_time(model)
        assert check(look(pid), "server_current").status.value == "fail"


def test_a_link_to_the_model_that_leads_elsewhere_since_is_told(home: Path) -> None:
    place = home.parent / "current"
    place.symlink_to("good")
    with hosts.running([home / "bin/vllm", "serve", place]) as (pid, _):
        assert check(look(pid), "server_current").status.value == "pass"
        place.unlink()
        place.symlink_to("model")
        found = check(look(pid), "server_current")
    assert (found.status.value, found.detail) == (
        "fail", f"changed or replaced since the server started: the link {place}",
    )  # fmt: skip


CHANGES: dict[str, tuple[Act, str]] = {
    "changed": (lambda model: (model / NAME).write_text('{"top_k": 1}'), f"{NAME} changed"),
    "changed, with its time": (
        lambda model: ((model / NAME).write_text("{}"), os.utime(model / NAME, (10**9, 10**9))), f"{NAME} changed"
    ),
    "replaced": (lambda model: shutil.copy(model / "config.json", model / NAME), f"{NAME} changed"),
    "another template": (
        lambda model: (model / "chat_template.jinja").write_text("{{ 1 }}"), "chat_template.jinja changed"
    ),
    "removed": (lambda model: (model / NAME).unlink(), f"{NAME} is gone"),
    "added": (lambda model: (model / "model-2.safetensors").write_bytes(b""), "model-2.safetensors was added"),
}  # fmt: skip


@pytest.mark.parametrize("kind", CHANGES)
def test_a_file_that_moves_while_a_host_is_looked_at_is_a_finding(
    home: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """No server: what was hashed first moves while the last byte is hashed."""
    model = home.parent / "model"
    act, told = CHANGES[kind]
    seen = observed(home, monkeypatch, lambda: act(model))
    found = check(seen, "files_stable")
    assert found.status.value == "fail"
    assert found.detail.startswith(f"during the check of this host: {told}")
    assert held(seen, told.split()[0]) is None


@pytest.mark.parametrize("act", ["touched", "linked by a backup", "another mode", "copied again", "synchronized again"])
def test_a_file_of_the_same_bytes_is_stable(home: Path, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    path = home.parent / "model" / NAME
    seen = observed(home, monkeypatch, lambda: TOUCHES[act](path))
    assert check(seen, "files_stable").status.value == "pass"
    assert held(seen, NAME) is not None


def observed(home: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> Observation:
    """A look at a planned server during which something happens: after the files were read, before the verdict."""
    real = model_files.look

    def slow(*words: Any) -> Any:
        found = real(*words)
        act()
        return found

    monkeypatch.setattr(model_files, "look", slow)
    command = (str(home / "bin/vllm"), "serve", str(home.parent / "model"))
    return observe(Request(command=command, gpu="none", environ={}, cwd=str(home.parent)))


def test_a_config_file_of_the_command_that_moves_meanwhile_is_a_finding(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = home.parent / "serve.yaml"
    config.write_text("max-model-len: 128\n")
    real = model_files.look

    def slow(*words: Any) -> Any:
        config.write_text("max-model-len: 256\n")
        return real(*words)

    monkeypatch.setattr(model_files, "look", slow)
    command = (str(home / "bin/vllm"), "serve", str(home.parent / "model"), "--config", str(config))
    seen = observe(Request(command=command, gpu="none", environ={}, cwd=str(home.parent)))
    found = check(seen, "files_stable")
    assert (found.status.value, found.detail) == ("fail", f"during the check of this host: {config} changed")


def test_a_server_that_ends_while_it_is_looked_at_is_no_match(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = home.parent / "model"
    process = subprocess.Popen(
        [home / "bin/vllm", "serve", model, "--max-model-len", "64"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    real = model_files.look

    def slow(*words: Any) -> Any:
        found = real(*words)
        process.kill()
        process.wait()
        return found

    monkeypatch.setattr(model_files, "look", slow)
    seen = look(process.pid)
    process.stdin.close()
    process.stdout.close()
    found = check(seen, "server_current")
    assert (found.status.value, found.detail) == ("fail", f"pid {process.pid} ended during the check")
    gaps = {gap.path: gap.reason for gap in seen.unobserved}
    assert gaps[("serve", "max_model_len")] == found.detail
    assert ("serve", "args") not in seen.complete
    assert held(seen, "config.json") is not None


def test_another_server_on_the_port_of_the_one_that_was_looked_at_is_no_match(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = home.parent / "model"
    script = home / "bin" / "vllm"
    script.write_text(
        f"#!{home}/bin/python\nimport socket, sys\n"
        "listener = socket.create_server(('127.0.0.1', int(sys.argv[2])), reuse_port=True)\n"
        "print(listener.getsockname()[1], flush=True)\n"
        "sys.stdin.readline(); listener.close(); print(0, flush=True); sys.stdin.read()\n"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([script, "serve", "0", model], **pipes) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        port = int(first.stdout.readline())
        others: list[subprocess.Popen[str]] = []
        real = model_files.look

        def slow(*words: Any) -> Any:
            found = real(*words)
            assert first.stdin is not None
            assert first.stdout is not None
            first.stdin.write("\n")
            first.stdin.flush()
            first.stdout.readline()
            others.append(subprocess.Popen([script, "serve", str(port), model], **pipes))
            assert others[0].stdout is not None
            others[0].stdout.readline()
            return found

        monkeypatch.setattr(model_files, "look", slow)
        seen = observe(Request(server=f"127.0.0.1:{port}", gpu="none", cache="off", timeout=0.3, checkpoint=str(model)))
        others[0].communicate("\n")
        first.stdin.close()
    detail = f"pid {others[0].pid} answers on port {port} now instead of pid {first.pid}"
    found = check(seen, "server_current")
    assert (found.status.value, found.detail) == ("fail", detail)


NAMED = {
    "--config": ("serve.yaml", "max-model-len: 128\n"),
    "--chat-template": ("t.jinja", "{{ messages }}"),
}


@pytest.mark.parametrize("option", NAMED)
@pytest.mark.parametrize("act", ["put back", "touched", "nothing", "link"])
def test_a_file_that_the_command_names_is_what_the_server_read(home: Path, option: str, act: str) -> None:
    name, text = NAMED[option]
    path = home.parent / name
    path.write_text(text)
    (home.parent / "link").symlink_to(name)
    argv = [home / "bin/vllm", "serve", home.parent / "model", option, home.parent / "link"]
    with hosts.running(argv) as (pid, _):
        if act == "put back":
            held = path.stat()
            path.write_text(text)
            os.utime(path, ns=(held.st_atime_ns, held.st_mtime_ns))
        elif act == "touched":
            os.utime(path)
        elif act == "link":
            path.rename(home.parent / f"other-{name}")
            (home.parent / "link").unlink()
            (home.parent / "link").symlink_to(f"other-{name}")
        found = check(look(pid), "server_current")
    if act in ("put back", "link"):
        link = home.parent / "link"
        assert (found.status.value, found.detail) == ("fail", f"changed or replaced since the server started: {link}")
    else:
        assert found.status.value == "pass"


@contextmanager
def of_repository(home: Path, snapshot: Path) -> Iterator[int]:
    """A stand-in for a server of the repository org/name in the Hub's cache."""
    with hosts.running([home / "bin/vllm", "serve", "org/name"], {"HF_HOME": str(snapshot.parents[3])}) as (pid, _):
        yield pid


def download(snapshot: Path) -> None:
    """What the Hub's client leaves: blobs, links to them, and the ref."""
    blobs = snapshot.parents[1] / "blobs"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(snapshot.name)
    for file in (TINY / "model").iterdir():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        shutil.copy(file, blobs / digest)
        (snapshot / file.name).symlink_to(f"../../blobs/{digest}")


@pytest.mark.parametrize("when", ["before the start", "after the start", "one file again after the start"])
def test_a_model_that_the_server_downloads_itself_is_told_apart_from_one_that_was_replaced(
    home: Path, tmp_path: Path, when: str
) -> None:
    snapshot = tmp_path / "hf" / "hub" / "models--org--name" / "snapshots" / ("a" * 40)
    if when != "after the start":
        download(snapshot)
    with of_repository(home, snapshot) as pid:
        if when == "after the start":
            download(snapshot)
        elif when.startswith("one file"):
            blob = (snapshot / NAME).resolve()
            shutil.copy2(blob, tmp_path / "new")
            (tmp_path / "new").replace(blob)
        found = check(look(pid), "server_current")
    status = {"before the start": "pass", "after the start": "unknown"}.get(when, "fail")
    assert found.status.value == status, found
    if status == "unknown":
        assert found.detail == "downloaded since the process began: org/name; what it loaded is not proven"


def test_a_helper_that_comes_and_goes_is_no_part_of_the_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = home / "bin" / "vllm"
    script.write_text(
        f"#!{home}/bin/python\nimport os, socket, sys\n"
        "listener = socket.create_server(('127.0.0.1', 0))\n"
        "print(listener.getsockname()[1], flush=True)\n"
        "sys.stdin.readline()\n"
        "if os.fork() == 0: sys.stdin.read(); os._exit(0)\n"
        "print('forked', flush=True); sys.stdin.read()\n"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([script, "serve", home.parent / "model"], **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        real = model_files.look

        def slow(*words: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            return real(*words)

        monkeypatch.setattr(model_files, "look", slow)
        found = check(look(process.pid), "server_current")
        process.stdin.close()
    assert found.status.value == "pass"


def test_a_script_that_fetches_the_model_and_becomes_the_server_is_no_server_before(home: Path) -> None:
    script = home / "bin" / "vllm"
    wait = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    source = script.read_text().replace("import socket, sys\n", f"import socket, sys, threading\n{wait}\n")
    script.write_text(source)
    model = home.parent / "model"
    shutil.rmtree(model)
    fetch = '"$4" -c "import json" && cp -a "$1" "$2" && exec "$3" serve "$2"'
    with hosts.running(["sh", "-c", fetch, "sh", home.parent / "good", model, script, sys.executable]) as (pid, _):
        assert check(look(pid), "server_current").status.value == "pass"
        with_its_time(model)
        (home.parent / "cache").rename(home.parent / "other")  # without what the first look knows
        assert check(look(pid), "server_current").status.value == "fail"
