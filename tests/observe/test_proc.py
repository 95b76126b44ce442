from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lockllm.observe.process import listeners, proc
from tests.observe import hosts


class Fake:
    """A /proc of text files: what a kernel shows of processes that cannot be started here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "net").mkdir()
        (root / "net" / "tcp").write_text("")

    def process(
        self, pid: int, cmdline: bytes, environ: bytes = b"A=1\0", ppid: int = 1, state: str = "S (sleeping)"
    ) -> None:
        folder = self.root / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_bytes(cmdline)
        (folder / "environ").write_bytes(environ)
        (folder / "status").write_text(f"Name:\tserver\nState:\t{state}\nPPid:\t{ppid}\n")
        (folder / "stat").write_text(f"{pid} (a) b) S {' '.join(['0'] * 18)} {pid * 100} 0\n")


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


@pytest.mark.parametrize(
    "cmdline, argv, title",
    [
        (b"vllm\0serve\0m\0", ("vllm", "serve", "m"), "vllm serve m"),
        (b"vllm\0serve\0--x\0\0", ("vllm", "serve", "--x", ""), "vllm serve --x "),
        (b"VLLM::EngineCore" + b"\0" * 130, (), "VLLM::EngineCore"),
        (b"sglang::scheduler_TP0", (), "sglang::scheduler_TP0"),
        (b"a\xff\0", ("a\udcff",), "a\udcff"),
    ],
)
def test_arguments_are_told_from_a_title(fake: Fake, cmdline: bytes, argv: tuple[str, ...], title: str) -> None:
    fake.process(7, cmdline)
    process = proc.read(7, fake.root)
    assert (process.argv, process.title) == (argv, title)


@pytest.mark.parametrize(
    "environ, env, whole",
    [
        (b"A=1\0B=x=y\0A=2\0", {"A": "1", "B": "x=y"}, True),
        (b"", {}, True),
        (b"\0\0\0\0", {}, False),
        (b"\0\0\0B=2\0C=3\0", {"B": "2", "C": "3"}, False),
        (b"garbage\0", {}, False),
    ],
)
def test_a_destroyed_environment_is_unknown_and_not_empty(
    fake: Fake, environ: bytes, env: dict[str, str], whole: bool
) -> None:
    fake.process(7, b"vllm\0serve\0", environ)
    process = proc.read(7, fake.root)
    assert (process.env, process.env_whole) == (env, whole)


def test_what_a_renamed_process_lacks_is_never_unset(fake: Fake) -> None:
    fake.process(7, b"VLLM::Worker_TP0" + b"\0" * 20, b"A=1\0")
    assert not proc.read(7, fake.root).env_whole


@pytest.mark.parametrize("state", ["Z (zombie)", "X (dead)"])
def test_a_process_that_ended_is_gone(fake: Fake, state: str) -> None:
    fake.process(7, b"x\0", state=state)
    for pid in (7, 8):
        with pytest.raises(proc.Gone):
            proc.read(pid, fake.root)


def test_the_tree_is_read_downwards_and_upwards(fake: Fake) -> None:
    for pid, ppid in ((10, 1), (11, 10), (12, 11), (13, 10), (20, 1)):
        fake.process(pid, b"x\0", ppid=ppid)
    processes = {pid: proc.read(pid, fake.root) for pid in (10, 11, 12, 13, 20)}
    assert [each.pid for each in proc.descendants(10, processes)] == [11, 13, 12]
    assert [each.pid for each in proc.ancestors(12, processes)] == [11, 10]


def test_parents_in_a_circle_end(fake: Fake) -> None:
    fake.process(10, b"x\0", ppid=11)
    fake.process(11, b"x\0", ppid=10)
    processes = {pid: proc.read(pid, fake.root) for pid in (10, 11)}
    assert len(proc.descendants(10, processes)) == 1
    assert len(proc.ancestors(10, processes)) <= 2


def test_a_pid_that_is_used_again_is_another_process(fake: Fake) -> None:
    fake.process(7, b"x\0")
    process = proc.read(7, fake.root)
    assert proc.alive(process, fake.root)
    (fake.root / "7" / "stat").write_text(f"7 (a) S {' '.join(['0'] * 18)} 999 0\n")
    assert not proc.alive(process, fake.root)


def test_mapped_files_are_told_with_those_that_were_replaced(fake: Fake) -> None:
    fake.process(7, b"x\0")
    (fake.root / "7" / "maps").write_text(
        "7f00-7f01 r--p 00000000 08:01 11 /usr/lib/libcuda.so.550.90.07\n"
        "7f01-7f02 r-xp 00001000 08:01 11 /usr/lib/libcuda.so.550.90.07\n"
        "7f02-7f03 r--p 00000000 08:01 12 /models/a b.gguf (deleted)\n"
        "7f03-7f04 rw-p 00000000 00:00 0 [heap]\n"
        "7f04-7f05 rw-p 00000000 00:00 0\n"
    )
    assert [(each.path, each.deleted) for each in proc.mapped_files(7, fake.root)] == [
        ("/usr/lib/libcuda.so.550.90.07", False),
        ("/models/a b.gguf", True),
    ]


def test_links_of_another_root_are_followed_inside_it(tmp_path: Path) -> None:
    root = tmp_path / "container"
    (root / "opt" / "venv" / "bin").mkdir(parents=True)
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "python3").write_text("")
    (root / "opt" / "venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    (root / "venv").symlink_to("/opt/venv")
    (root / "loop").symlink_to("loop")
    (root / "out").symlink_to("../../../../usr")
    assert proc.inside(root, "/venv/bin/python") == root / "usr/bin/python3"
    assert proc.inside(root, "/out/bin") == root / "usr/bin"
    assert proc.inside(root, "/../../etc") == root / "etc"
    assert proc.inside(root, "/loop").parent == root


def test_a_real_process_is_read_whole(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", hosts.STAND_IN, "a b", ""]
    with hosts.running(argv, {"EMPTY": "", "X": "y=z"}, tmp_path) as (pid, port):
        process = proc.read(pid)
        assert list(process.argv) == argv
        assert {name: process.env[name] for name in ("EMPTY", "X")} == {"EMPTY": "", "X": "y=z"}
        assert (process.env_whole, process.ppid, process.owner) == (True, os.getpid(), os.geteuid())
        assert process.path("file") == tmp_path / "file"
        assert listeners.listeners(port) == (pid,)
        assert listeners.listens(pid) == (("127.0.0.1", port),)
        assert any("libpython" in each.path or "python" in each.path for each in proc.mapped_files(pid))
    assert listeners.listeners(port) == ()
    with pytest.raises(proc.Gone):
        proc.read(pid)
