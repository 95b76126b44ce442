"""Checkpoints that somebody made to confuse: each ends soon, with a word, and no such file is ever called a match."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from lockllm.checkpoint import hashing, look
from lockllm.checkpoint.hashing import Digest, Job
from tests.abuse.conftest import Ours, mounted, needs_mount

QUIET = ("verify", "--stage", "preflight", "--quiet")
PREFLIGHT = ("verify", "--stage", "preflight", "--format", "json")
NAMES = {
    "a newline": "a\n[policy]\n.json",
    "a control character": "a\x1b[31m.json",
    "a tab": "a\tb.json",
    "bidi": "a\u202egpj.json",
    "no UTF-8": os.fsdecode(b"a\xff\xfe.json"),
    "half a pair": os.fsdecode(b"a\xed\xa0\x80.json"),
    "a backslash": "a\\b.json",
    "quotes": "a\"'b.json",
    "a drive": "c:a.json",
    "a command": "$(reboot)`x`.json",
    "dashes": "--help.json",
    "a workflow": "::error::x.json",
    "zero width": "a\u200bb.json",
    "long": "a" * 240 + ".json",
    "a space at the end": "a.json ",
}


def report(done: Any) -> dict[str, Any]:
    held: dict[str, Any] = json.loads(done.out)
    return held


def statuses(done: Any, status: str) -> set[str]:
    return {each["fact"] for each in report(done)["results"] if each["status"] == status}


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def folder(path: Path) -> None:
    path.mkdir()


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def random_(path: Path) -> None:
    path.symlink_to("/dev/random")


def tty(path: Path) -> None:
    path.symlink_to("/dev/tty")


def process(path: Path) -> None:
    path.symlink_to("/proc/self/environ")


def kernel(path: Path) -> None:
    path.symlink_to("/proc/kmsg")


def outside(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def itself(path: Path) -> None:
    path.symlink_to(path.name)


def nowhere(path: Path) -> None:
    path.symlink_to("nothing")


KINDS = (pipe, listening, folder, endless, random_, tty, process, kernel, outside, itself, nowhere)
FILES = ("model.safetensors", "config.json", "chat_template.jinja", "tokenizer.json")
PAIRS = [(make, FILES[at % len(FILES)]) for at, make in enumerate(KINDS)]


@pytest.mark.parametrize(("make", "name"), PAIRS, ids=[make.__name__.strip("_") for make in KINDS])
def test_what_is_no_file_of_the_checkpoint_is_no_match_and_stops_nothing(
    locked: Path, ours: Ours, make: Any, name: str
) -> None:
    (locked / "model" / name).unlink()
    make(locked / "model" / name)
    done = ours(*PREFLIGHT, timeout=30)
    assert done.code in (1, 3)
    assert f'checkpoint.files."{name}"' not in statuses(done, "match")
    failed = any(each["status"] == "fail" for each in report(done)["checks"])
    assert failed or f'checkpoint.files."{name}"' in statuses(done, "mismatch")


def test_a_device_of_its_own_is_not_read(locked: Path, ours: Ours) -> None:
    path = locked / "model" / "model.safetensors"
    path.unlink()
    try:
        os.mknod(path, 0o20644, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this user makes no devices")
    done = ours(*PREFLIGHT, timeout=30)
    assert done.code in (1, 3)
    assert 'checkpoint.files."model.safetensors"' not in statuses(done, "match")


def test_folders_that_link_to_each_other_end(locked: Path, ours: Ours) -> None:
    deep = locked / "model" / "a"
    deep.mkdir()
    for name, target in (("up", ".."), ("self", "."), ("root", "/"), ("proc", "/proc")):
        (deep / name).symlink_to(target)
    done = ours(*PREFLIGHT, timeout=30)
    assert done.code in (0, 1)
    assert 'checkpoint.files."model.safetensors"' in statuses(done, "match")


def test_a_deep_tree_ends(locked: Path, ours: Ours) -> None:
    here = locked / "model"
    for _ in range(120):
        here /= "d"
        here.mkdir()
    (here / "config.json").write_text("{}")
    done = ours(*PREFLIGHT, timeout=30)
    assert done.code == 1
    assert "check.files_listed" in {each["check"] for each in report(done)["checks"] if each["status"] == "fail"}


@pytest.mark.parametrize("name", NAMES)
def test_an_odd_name_changes_no_output_and_is_told(locked: Path, ours: Ours, name: str) -> None:
    try:
        (locked / "model" / NAMES[name]).write_text("{}")
    except OSError:
        pytest.skip("this file system holds no such name")
    for format_ in ("text", "json", "github"):
        done = ours("verify", "--stage", "preflight", "--format", format_)
        assert done.code == 1, done.out
        assert all(char.isprintable() or char == "\n" for char in done.out + done.err)
        assert not any(line.startswith("[policy]") for line in done.out.splitlines())
    done = ours("lock", "-o", "-")
    assert "\n[policy]\n.json" not in done.out
    assert "\x1b" not in done.out + done.err


@needs_mount
@pytest.mark.parametrize("over", ["another file", "a folder over a folder", "a name of control characters"])
def test_what_is_mounted_over_the_checkpoint_is_what_is_judged(locked: Path, ours: Ours, over: str) -> None:
    (locked / "other.json").write_text("{}")
    (locked / "model" / "a\nb").touch()
    script = {
        "another file": "mount --bind other.json model/config.json",
        "a folder over a folder": "mount -t tmpfs none model",
        "a name of control characters": 'mount --bind model/config.json "model/a\nb"',
    }
    done = ours(*PREFLIGHT, inside=mounted(script[over]))
    assert done.code in (1, 3)
    named = "config.json" if over != "a name of control characters" else "a\nb"
    assert f'checkpoint.files."{named}"' not in statuses(done, "match")
    assert all(char.isprintable() or char == "\n" for char in done.out + done.err)


def test_names_that_differ_in_case_alone_are_two_files(locked: Path, ours: Ours) -> None:
    (locked / "model" / "CONFIG.json").write_text("{}")
    done = ours(*PREFLIGHT)
    assert done.code == 1
    assert 'checkpoint.files."CONFIG.json"' in statuses(done, "mismatch")
    assert 'checkpoint.files."config.json"' in statuses(done, "match")


def test_a_name_composed_in_two_ways_is_two_files(locked: Path, ours: Ours) -> None:
    (locked / "model" / "caf\u00e9.json").write_text("{}")
    assert ours("lock").code == 0
    (locked / "model" / "caf\u00e9.json").rename(locked / "model" / "cafe\u0301.json")
    assert ours(*PREFLIGHT).code == 1


def test_as_many_files_as_are_listed_are_judged_in_seconds_and_bounded_memory(locked: Path, ours: Ours) -> None:
    many = locked / "model" / "many"
    many.mkdir()
    for group in range(4):  # a file has 65,000 names at most
        first = many / f"{group}.json"
        first.touch()
        for number in range(12_449):
            os.link(first, many / f"{group}-{number}.json")
    memory, seconds = 400 << 20, 30  # of address space, half of which is held; of the processor, with the hashing

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    done = ours(*QUIET, timeout=120, before=limit)
    assert done.code == 1, done.err
    assert done.out.count("many/") >= 49_800


def test_more_files_than_are_listed_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockllm.checkpoint.folder.MOST", 5)
    for number in range(9):
        (tmp_path / f"z{number}.json").touch()
    (tmp_path / "config.json").write_text("{}")
    found = look(str(tmp_path), engine="vllm")
    assert "check.files_listed" in {check.name for check in found.checks if check.status.value == "fail"}
    assert ("checkpoint", "files") not in found.complete
    assert ("checkpoint", "files") in {each.path for each in found.unobserved if "more than 5 entries" in each.reason}


@needs_mount
def test_a_file_whose_bytes_cannot_be_read_is_unknown(locked: Path, ours: Ours) -> None:
    view = mounted("mount --bind /proc/$$/mem model/model.safetensors")
    done = ours(*PREFLIGHT, inside=view)
    assert done.code in (1, 3)
    assert 'checkpoint.files."model.safetensors"' not in statuses(done, "match")
    assert "input/output error" in done.out.lower()


def test_a_file_that_may_not_be_read_is_unknown_with_its_reason(locked: Path, ours: Ours) -> None:
    (locked / "model" / "model.safetensors").chmod(0)
    no_root = (
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"] if os.geteuid() == 0 else []
    )
    done = ours(*PREFLIGHT, inside=no_root)
    assert done.code == 1  # for the finding that the weights cannot be read
    assert 'checkpoint.files."model.safetensors"' in statuses(done, "unknown")
    assert "permission denied" in done.out.lower()


def test_the_permission_lost_halfway_leaves_the_file_that_is_open(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(9 << 20))
    status = threading.Event()

    def deny(done: int, total: int) -> None:
        if not status.is_set():
            status.set()
            path.chmod(0)

    found = hashing.digest([Job("a", str(path), 9 << 20)], progress=deny)["a"]
    assert isinstance(found, Digest)  # no byte has moved: what is read again through the open file is the same
    assert found.sha256 == hashlib.sha256(bytes(9 << 20)).hexdigest()


def test_a_folder_that_goes_away_while_it_is_read_is_no_match(locked: Path, ours: Ours) -> None:
    done: list[Any] = []
    with (locked / "model" / "model.safetensors").open("ab") as file:
        file.truncate(3 << 30)
    thread = threading.Thread(target=lambda: done.append(ours(*PREFLIGHT, timeout=60)))
    thread.start()
    (locked / "model").rename(locked / "gone")
    thread.join()
    assert done[0].code in (1, 2, 3)
