"""Hosts that lack what a program takes for granted: a home, a place to write, memory, space, a steady hand at the keyboard."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.abuse.conftest import OURS, Ours, environ, mounted, needs_mount

PREFLIGHT = ("verify", "--stage", "preflight")


def leftovers(folder: Path) -> list[str]:
    """What stands in the folder that nobody asked for."""
    return sorted({path.name for path in folder.iterdir()} - {"llm.toml", "llm.lock", "model"})


def test_without_a_home_everything_works(locked: Path, ours: Ours) -> None:
    gone = {"HOME": None, "XDG_CACHE_HOME": None, "LOCKLLM_CACHE": None, "USER": None, "LOGNAME": None}
    assert ours("lock", "--check", env=gone).code == 0
    assert ours(*PREFLIGHT, env={**gone, "HOME": "/nonexistent"}).code == 0
    assert ours(*PREFLIGHT, env={**gone, "HOME": "/dev/null", "TMPDIR": "/nonexistent"}).code == 0
    assert leftovers(locked) == []


@needs_mount
def test_where_nothing_can_be_written_a_host_is_verified(locked: Path, ours: Ours) -> None:
    view = mounted(
        f"mount --bind {locked} {locked}\nmount -o remount,bind,ro {locked}\n"
        "for each in /tmp /var/tmp /dev/shm; do test ! -d $each || mount -o ro -t tmpfs none $each || true; done"
        if not str(locked).startswith(("/tmp", "/var/tmp"))
        else f"mount --bind {locked.parent} {locked.parent}\nmount -o remount,bind,ro {locked.parent}"
    )
    assert ours(*PREFLIGHT, inside=view).code == 0
    done = ours("lock", "-o", "other.lock", inside=view)
    assert done.code == 4
    assert done.err.startswith("lockllm: the file cannot be written: read-only file system\n")
    assert leftovers(locked) == []


@needs_mount
def test_a_full_disk_leaves_the_old_lock(locked: Path, ours: Ours) -> None:
    once = (locked / "llm.lock").read_bytes()
    script = (
        "mount -t tmpfs -o size=16k none /mnt\ncp llm.lock /mnt/llm.lock\n"
        "dd if=/dev/zero of=/mnt/full bs=1k count=100 2>/dev/null || true\n"
    )
    show = 'code=0; "$@" || code=$?; ls -A /mnt; cmp llm.lock /mnt/llm.lock; exit $code'
    words = ["unshare", "-rm", "sh", "-c", script + show, "sh"]
    (locked / "model" / "config.json").write_text((locked / "model" / "config.json").read_text() + " ")
    done = ours("lock", "-o", "/mnt/llm.lock", inside=words)
    assert done.code == 4
    assert "the file cannot be written: no space left on device" in done.err
    assert done.out.split() == ["full", "llm.lock"]
    assert (locked / "llm.lock").read_bytes() == once


def test_a_limit_on_file_sizes_leaves_the_old_lock(locked: Path, ours: Ours) -> None:
    once = (locked / "llm.lock").read_bytes()
    (locked / "model" / "config.json").write_text((locked / "model" / "config.json").read_text() + " ")
    done = ours("lock", before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)))
    assert done.code == 4
    assert "the file cannot be written: file too large" in done.err
    assert (locked / "llm.lock").read_bytes() == once
    assert leftovers(locked) == []


@pytest.mark.parametrize(
    "arguments", [["lock", "-o", "/dev/full"], ["observe", "--stage", "preflight", "-o", "/dev/full"]], ids=["lock", "observe"]
)  # fmt: skip
def test_what_cannot_be_written_is_4(locked: Path, ours: Ours, arguments: list[str]) -> None:
    done = ours(*arguments)
    assert done.code == 4
    assert "no space left on device" in done.err


@pytest.mark.parametrize("command", [[*PREFLIGHT[:3]], ["inspect", "model"], ["explain", "serve.dtype"], ["schema", "lock"], ["--help"]],
                         ids=lambda words: words[0])  # fmt: skip
def test_a_standard_output_that_is_full_is_4(locked: Path, command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*OURS, *command], cwd=locked, env=environ(locked, {}), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "no space left on device" in done.stderr
    assert done.returncode == 4


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)], ids=str)
def test_closed_streams_are_no_obstacle(locked: Path, closed: tuple[int, ...]) -> None:
    def close() -> None:
        for each in closed:
            os.close(each)

    words = [*OURS, "verify", "--stage", "preflight"]
    done = subprocess.run(words, cwd=locked, env=environ(locked, {}), preexec_fn=close, capture_output=True, timeout=60)
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 4)


def test_256_mb_are_enough_for_a_checkpoint_of_any_size(locked: Path, ours: Ours) -> None:
    with (locked / "model" / "model-extra.bin").open("wb") as file:
        file.truncate(300 << 20)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))

    for arguments in (
        ["lock", "--dry-run"],
        ["verify", "--stage", "preflight"],
        ["inspect", "model"],
        ["render", "model"],
    ):
        done = ours(*arguments, before=limit)
        assert "memory" not in done.err, arguments
        assert done.code in (0, 1, 3), (arguments, done.err)


def test_few_descriptors_are_enough(locked: Path, ours: Ours) -> None:
    done = ours(*PREFLIGHT, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)))
    assert done.code == 0, done.out + done.err


@needs_mount
def test_without_proc_what_needs_it_is_unknown_and_the_rest_is_judged(locked: Path, ours: Ours) -> None:
    view = mounted("mount -t tmpfs none /proc")
    done = ours("verify", "--format", "json", inside=view)
    told = {each["fact"]: each["status"] for each in json.loads(done.out)["results"]}
    assert done.code in (0, 3)
    assert told['checkpoint.files."model.safetensors"'] == "match"


def test_the_lock_is_old_or_new_whatever_the_moment_of_a_signal(locked: Path) -> None:
    config = locked / "model" / "config.json"
    once = (locked / "llm.lock").read_text()
    config.write_text(config.read_text() + " ")
    new = subprocess.run(
        [*OURS, "lock", "-o", "-"], cwd=locked, env=environ(locked, {}), capture_output=True, text=True, timeout=60
    ).stdout  # fmt: skip
    assert new != once
    codes = set()
    for turn in range(14):
        (locked / "llm.lock").write_text(once)
        number = (signal.SIGINT, signal.SIGTERM)[turn % 2]
        with subprocess.Popen(
            [*OURS, "lock"], cwd=locked, env=environ(locked, {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:  # fmt: skip
            try:
                process.communicate(timeout=0.05 + 0.06 * turn)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
            _, err = process.communicate(timeout=30)
        codes.add(process.returncode)
        assert (locked / "llm.lock").read_text() in (once, new)
        assert leftovers(locked) == []
        quiet(err)
    assert codes <= {0, 128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM, 1}


def quiet(err: str) -> None:
    """No traceback but one from before our first line has run: from Python itself, or from loading `__main__`."""
    frames = re.findall(r'File ".*[/]lockllm[/]([^"]*)", line \d+, in (\S+)', err)
    assert "Traceback" not in err or set(frames) <= {("__main__.py", "<module>")}, err


@pytest.mark.parametrize(
    "command", [["explain", "serve.dtype"], ["verify", "--stage", "preflight"]], ids=lambda words: words[0]
)
def test_an_interrupt_ends_a_run_quietly_while_it_still_imports(locked: Path, command: list[str]) -> None:
    for turn in range(16):
        number = (signal.SIGINT, signal.SIGTERM)[turn % 2]
        with subprocess.Popen(
            [*OURS, *command], cwd=locked, env=environ(locked, {}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:  # fmt: skip
            try:
                process.wait(timeout=0.015 * turn)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
            _, err = process.communicate(timeout=30)
        quiet(err)
        if "Traceback" not in err:
            assert process.returncode in (0, -number, 128 + number)


def test_runs_at_once_never_mix(work: Path) -> None:
    runs = [
        subprocess.Popen(
            [*OURS, "lock"], cwd=work, env=environ(work, {}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]  # fmt: skip
    for each in runs:
        _, err = each.communicate(timeout=120)
        assert each.returncode == 0, err
    alone = subprocess.run(
        [*OURS, "lock", "-o", "-"], cwd=work, env=environ(work, {"LOCKLLM_CACHE": str(work.parent / "other")}),
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (work / "llm.lock").read_text() == alone.stdout
    assert leftovers(work) == []


@pytest.mark.parametrize("at", ["1970-01-01T00:00:00Z", "", "yesterday", "9999-99-99T99:99:99Z", "1970"])
def test_a_clock_of_1970_waives_what_a_date_allows_and_nothing_else(work: Path, ours: Ours, at: str) -> None:
    (work / "llm.lock").write_text(
        'lock_version = 1\n\n[serve]\ndtype = "bfloat16"\nmax_num_seqs = 256\n\n'
        '[[waive]]\nfact = "serve.dtype"\nfound = "float16"\nreason = "x"\nuntil = 1969-12-31\n'
    )
    facts = {
        "serve.dtype": [{"value": "float16", "source": "x"}],
        "serve.max_num_seqs": [{"value": 256, "source": "x"}],
    }
    (work / "host.json").write_text(json.dumps({"observation_version": 1, "observed_at": at, "facts": facts}))
    assert ours("verify", "--observation", "host.json").code == 1


def test_a_host_in_1970_is_observed(locked: Path) -> None:
    code = (
        "import sys, time\n"
        "time.time = lambda: 3.0\ntime.time_ns = lambda: 3_000_000_000\n"
        "from lockllm.cli import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    words = [sys.executable, "-c", code, *PREFLIGHT]
    done = subprocess.run(words, cwd=locked, env=environ(locked, {}), capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stdout + done.stderr
