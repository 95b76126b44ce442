"""The cache of computed digests: believed only while nothing about a file has moved, whatever anybody tries."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from lockllm.checkpoint import Look, cache, look
from tests.abuse.conftest import needs_mount


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder; files count as old at once, because nothing can date back a ctime."""
    monkeypatch.setenv("LOCKLLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_FRESH_NS", -(10**9))
    return tmp_path / "cache"


def again(folder: Path, mode: str = "any") -> Look:
    """A look that may use the cache, wherever the tests' folder lies."""
    return look(str(folder), cache=mode)  # type: ignore[arg-type]


def evidence(found: Look) -> dict[str, str]:
    return {file.path: file.evidence for file in found.files}


def right(found: Look, folder: Path) -> bool:
    """Whether every digest is that of the bytes there now."""
    return all(file.sha256 == hashlib.sha256((folder / file.path).read_bytes()).hexdigest() for file in found.files)


def test_what_did_not_move_is_not_read_again_and_says_when_it_was(where: Path, tiny: Path) -> None:
    first, second = again(tiny), again(tiny)
    assert set(evidence(first).values()) == {"computed"}
    assert set(evidence(second).values()) == {"cached"}
    assert second.content_sha256 == first.content_sha256
    assert all(file.hashed_at.endswith("Z") for file in second.files)
    assert {reading.evidence for reading in second.readings if reading.fact.path[:2] == ("checkpoint", "files")} == {
        "cached"
    }


def test_a_file_modified_just_now_is_not_kept(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKLLM_CACHE", str(tmp_path / "cache"))
    again(tiny)
    assert set(evidence(again(tiny)).values()) == {"computed"}


def rewrite(path: Path) -> None:
    status = path.stat()
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    with path.open("r+b") as file:
        file.write(raw)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def swap(path: Path) -> None:
    status = path.stat()
    other = path.with_suffix(".new")
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    other.write_bytes(raw)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


def hard_link(path: Path) -> None:
    other = path.with_suffix(".other")
    os.link(path, other)
    rewrite(other)
    other.unlink()


def link(path: Path) -> None:
    other = path.with_name("other.tmp")
    path.rename(other)
    rewrite(other)
    path.symlink_to(other.name)


@pytest.mark.parametrize("trick", [rewrite, swap, hard_link, link], ids=lambda trick: trick.__name__)
def test_no_trick_gives_a_digest_of_other_bytes(where: Path, tiny: Path, trick: object) -> None:
    again(tiny)
    trick(tiny / "model.safetensors")  # type: ignore[operator]
    found = again(tiny)
    assert evidence(found)["model.safetensors"] == "computed"
    assert right(found, tiny)


def test_a_write_through_a_mapping_that_moves_no_time_is_noticed(where: Path, tiny: Path) -> None:
    path = tiny / "model.safetensors"
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[-1] ^= 1
        again(tiny, "auto")
        before = path.stat()
        mapped[-1] ^= 2  # the page is dirty: the kernel notes no time for this one, unless the page was written back
        moved = path.stat().st_mtime_ns != before.st_mtime_ns
        found = again(tiny, "auto")
    assert right(found, tiny)
    assert moved or evidence(found)["model.safetensors"] == "computed"


def test_a_file_of_the_future_is_not_kept(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKLLM_CACHE", str(tmp_path / "cache"))
    soon = time.time_ns() + 10**12  # somebody set the clock back since
    os.utime(tiny / "config.json", ns=(soon, soon))
    again(tiny)
    assert evidence(again(tiny))["config.json"] == "computed"


def test_a_clock_that_jumps_hides_no_change(where: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for jump in (10**13, -(10**13)):
        now = time.time_ns()
        with monkeypatch.context() as clock:
            clock.setattr(time, "time_ns", lambda now=now, jump=jump: now + jump)
            again(tiny)
            rewrite(tiny / "model.safetensors")
            found = again(tiny)
        assert evidence(found)["model.safetensors"] == "computed"
        assert right(found, tiny)
        assert right(again(tiny), tiny)


MOUNTED = """
import hashlib, os, pathlib, subprocess, sys
from lockllm.checkpoint import cache, look
cache._FRESH_NS = -10**9
folder, over, on = sys.argv[1:]
first = look(folder, cache="any")
subprocess.run(["mount", "--bind", over, on], check=True)
found = look(folder, cache="any")
again = look(folder, cache="any")
for each in (*found.files, *again.files):
    assert each.sha256 == hashlib.sha256(pathlib.Path(folder, each.path).read_bytes()).hexdigest(), each
print({each.path: each.evidence for each in found.files}["config.json"])
"""


@needs_mount
@pytest.mark.parametrize("over", ["a file", "the folder"])
def test_what_is_mounted_over_a_file_is_hashed(where: Path, tiny: Path, tmp_path: Path, over: str) -> None:
    other = Path(shutil.copytree(tiny, tmp_path / "other"))
    rewrite(other / "config.json")
    ends = ("config.json",) if over == "a file" else ()
    places = [str(folder.joinpath(*ends)) for folder in (other, tiny)]
    words = ["unshare", "-rm", sys.executable, "-c", MOUNTED, str(tiny), *places]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout == "computed\n", done.stderr


MANY = """
import hashlib, pathlib, sys
from lockllm.checkpoint import cache, look
cache._FRESH_NS = -10**9
folder = sys.argv[1]
allowed = set(sys.argv[2:])
for turn in range(25):
    for each in look(folder, cache="any").files:
        if each.path == "config.json" and each.sha256 not in allowed:
            raise SystemExit(f"{each.sha256} was never there")
"""


def test_many_processes_at_once_and_one_that_writes_never_give_a_digest_of_other_bytes(where: Path, tiny: Path) -> None:
    texts = [b'{"x": %d}' % number for number in range(4)]
    config = tiny / "config.json"
    config.write_bytes(texts[0])
    digests = [hashlib.sha256(text).hexdigest() for text in texts]
    runs = [
        subprocess.Popen([sys.executable, "-c", MANY, str(tiny), *digests], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    turn = 0
    while any(run.poll() is None for run in runs):
        beside = tiny.parent / "beside"
        beside.write_bytes(texts[turn % 4])
        beside.replace(config)
        turn += 1
    for run in runs:
        assert run.wait() == 0, run.stderr and run.stderr.read()
        assert run.stderr is not None
        run.stderr.close()
    assert right(again(tiny), tiny)
    (file,) = where.iterdir()  # nothing lies beside it
    assert json.loads(file.read_text())["version"] == 1


def test_the_files_of_another_folder_are_not_mistaken(where: Path, tiny: Path, tmp_path: Path) -> None:
    again(tiny)
    moved = tmp_path / "moved"
    tiny.rename(moved)
    shutil.copytree(moved, tiny)
    rewrite(tiny / "config.json")
    assert right(again(tiny), tiny)
    assert evidence(again(moved))["config.json"] in {"computed", "cached"}


HOSTILE = {
    "empty": b"", "binary": b"\0\xff" * 100, "list": b"[]", "deep": b"[" * 100_000, "number": b"7", "null": b"null",
    "cut": b'{"version":1,"boot":"', "version": b'{"version":2,"files":{}}', "files": b'{"version":1,"files":[1]}',
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_cache_is_no_cache(where: Path, tiny: Path, name: str) -> None:
    again(tiny)
    (file,) = where.glob("*.json")
    file.write_bytes(HOSTILE[name])
    assert set(evidence(again(tiny)).values()) == {"computed"}
    assert set(evidence(again(tiny)).values()) == {"cached"}


@pytest.mark.parametrize(
    ("key", "value"), [("sha256", "x" * 64), ("sha256", "a" * 63), ("filesystem", "0-0-0"), ("stamp", {"device": 1})]
)
def test_an_entry_that_cannot_be_is_not_believed(where: Path, tiny: Path, key: str, value: object) -> None:
    again(tiny)
    (file,) = where.glob("*.json")
    held = json.loads(file.read_text())
    held["files"]["config.json"][key] = value
    file.write_text(json.dumps(held))
    assert evidence(again(tiny))["config.json"] == "computed"


def test_a_digest_of_before_the_last_start_of_the_machine_is_not_believed(where: Path, tiny: Path) -> None:
    again(tiny)
    (file,) = where.glob("*.json")
    held = json.loads(file.read_text())
    held["boot"] = "another"
    file.write_text(json.dumps(held))
    assert set(evidence(again(tiny)).values()) == {"computed"}


def test_a_cache_that_others_may_write_is_not_used(where: Path, tiny: Path) -> None:
    again(tiny)
    (file,) = where.glob("*.json")
    file.chmod(0o666)
    assert set(evidence(again(tiny)).values()) == {"computed"}
    where.chmod(0o777)
    found = again(tiny)
    assert set(evidence(found).values()) == {"computed"}
    assert found.warnings == (f"no digest is kept: {where} is not private: others may write it",)


def test_a_link_in_place_of_the_cache_file_is_not_followed(where: Path, tiny: Path, tmp_path: Path) -> None:
    again(tiny)
    (file,) = where.glob("*.json")
    other = tmp_path / "other.json"
    file.rename(other)
    file.symlink_to(other)
    before = other.read_bytes()
    assert set(evidence(again(tiny)).values()) == {"computed"}
    assert other.read_bytes() == before


def test_a_cache_folder_in_the_checkpoint_is_refused(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKLLM_CACHE", str(tiny / "cache"))
    found = again(tiny)
    assert found.warnings == ("no digest is kept: the cache folder lies in the checkpoint",)
    assert not (tiny / "cache").exists()


def test_a_cache_that_cannot_be_made_costs_nothing_but_time(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKLLM_CACHE", "/proc/none")
    found = again(tiny)
    assert right(found, tiny)
    assert found.warnings[0].startswith("no digest is kept: /proc/none cannot be made")


def test_renew_hashes_again_and_off_leaves_no_trace(where: Path, tiny: Path) -> None:
    again(tiny, "off")
    assert not where.exists()
    again(tiny)
    assert set(evidence(again(tiny, "renew")).values()) == {"computed"}
    assert set(evidence(again(tiny)).values()) == {"cached"}


def test_blake3_is_computed_where_only_sha256_was_kept(where: Path, tiny: Path) -> None:
    again(tiny)
    found = look(str(tiny), cache="any", blake3=True)
    assert all(file.blake3 for file in found.files)
    assert all(file.blake3 for file in look(str(tiny), cache="any", blake3=True).files)


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("ext4", True),
        ("xfs", True),
        ("overlay", True),
        ("nfs4", False),
        ("fuse.s3fs", False),
        ("tmpfs", False),
        ("zfs", False),
        ("an overlay whose layers do not show here", False),
        ("", False),
    ],
)
def test_network_and_unknown_file_systems_are_left_alone_unless_asked(
    where: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, kind: str, kept: bool
) -> None:
    monkeypatch.setattr(cache, "filesystem", lambda path: kind)
    again(tiny, "auto")
    assert where.exists() == kept


def test_the_file_system_of_a_path_is_that_of_its_longest_mount(tmp_path: Path) -> None:
    mounts = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        where, _, kind = line.partition(" - ")
        mounts[where.split()[4].replace("\\040", " ")] = kind.split()[0]
    for path in ("/proc/self", "/dev/null", "/", os.path.realpath(tmp_path)):
        above = [mount for mount in mounts if path == mount or path.startswith(mount.rstrip("/") + "/")]
        assert cache.filesystem(path) == mounts[max(above, key=len)]


WITHOUT = ("squashfs", "erofs", "iso9660", "udf", "vfat", "exfat", "msdos", "ntfs3", "cramfs", "romfs")


@pytest.mark.parametrize("kind", WITHOUT)
@pytest.mark.parametrize("mode", ["auto", "any", "renew"])
def test_nothing_is_kept_of_a_file_system_that_cannot_vouch_for_a_file(
    where: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: str
) -> None:
    monkeypatch.setattr(cache, "filesystem", lambda path: kind)
    found = again(tiny, mode)
    assert not where.exists()
    assert set(evidence(again(tiny, mode)).values()) == {"computed"}
    assert found.warnings == (f"no digest is kept: the checkpoint lies on {kind}",)


@pytest.mark.parametrize(
    "options, layers",
    [
        ("rw,lowerdir=/a,upperdir=/u,workdir=/w", ["/a", "/u"]),
        ("ro,lowerdir=/a:/b/c:/d", ["/a", "/b/c", "/d"]),
        ("ro,lowerdir=/a::/data", ["/a", "/data"]),
        ("rw,lowerdir+=/a,lowerdir+=/b,datadir+=/d,upperdir=/u", ["/a", "/b", "/d", "/u"]),
        (r"rw,lowerdir=/l:/a\134:b\134\054c,upperdir=/u\040v,workdir=/w", ["/l", "/a:b,c", "/u v"]),
        ("rw,lowerdir=l/ABC:l/DEF,upperdir=/u", ["l/ABC", "l/DEF", "/u"]),
        ("rw,relatime", []),
    ],
)
def test_every_layer_of_an_overlay_is_read(options: str, layers: list[str]) -> None:
    line = f"66 43 0:39 / /m rw,relatime shared:1 - overlay overlay {options}"
    assert cache.mounted(["22 1 8:1 / / rw - ext4 /dev/a rw", line], "/m/x") == ("overlay", options)
    assert list(cache._layers(options)) == layers


OVERLAY = """
import os, subprocess, sys
from lockllm.checkpoint import cache
root, memory, kind = sys.argv[1:]
place = {name: os.path.join(memory if kind == name else root, name) for name in ("lower", "middle", "upper")}
subprocess.run(["mount", "-t", "tmpfs", "none", memory], check=True)
work = os.path.join(os.path.dirname(place["upper"]), "work")
merged = os.path.join(root, "merged")
for folder in (*place.values(), work, merged):
    os.makedirs(folder, exist_ok=True)
options = "lowerdir={middle}:{lower},upperdir={upper}".format(**place) + f",workdir={work}"
subprocess.run(["mount", "-t", "overlay", "none", "-o", options, merged], check=True)
print(cache.filesystem(merged))
"""


@needs_mount
@pytest.mark.parametrize("kind", ["lower", "middle", "upper", "none"])
def test_an_overlay_is_as_good_as_its_worst_layer(tmp_path: Path, kind: str) -> None:
    (tmp_path / "memory").mkdir()
    own = cache.filesystem(str(tmp_path))
    words = ["unshare", "-m", sys.executable, "-c", OVERLAY, str(tmp_path), str(tmp_path / "memory"), kind]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if "mount failed" in done.stderr or "overlay" in done.stderr:
        pytest.skip("this kernel lets no test mount an overlay here")
    expected = "tmpfs" if kind != "none" else "overlay" if own in cache._LOCAL else own
    assert done.stdout == f"{expected}\n", done.stderr


def test_an_overlay_of_layers_that_do_not_show_is_of_no_kind_that_vouches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "66 43 0:39 / / rw - overlay overlay rw,lowerdir=/var/lib/x/l:/var/lib/y,upperdir=/var/lib/u,workdir=/w"
    monkeypatch.setattr(cache.bounded, "read_small", lambda *words: line.encode())
    assert cache.filesystem(str(tmp_path)) == "an overlay whose layers do not show here"


def test_what_is_kept_reads_back_as_it_was_written(where: Path, tiny: Path) -> None:
    again(tiny)
    (file,) = where.glob("*.json")
    held = json.loads(file.read_text())["files"]
    assert set(held) == {file.name for file in tiny.iterdir()}
    assert all(msgspec.convert(entry, cache.Kept) for entry in held.values())
    assert os.stat(where).st_mode & 0o777 == 0o700
    assert os.stat(file).st_mode & 0o777 == 0o600


def test_what_headers_said_is_kept_while_no_weight_file_moves(
    where: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lockllm.checkpoint import safetensors

    def facts() -> dict[str, object]:
        return {reading.fact.key: reading.value for reading in again(tiny).readings}

    def checks() -> dict[str, str]:
        return {check.name: check.status.value for check in again(tiny).checks}

    first, found = facts(), checks()
    with monkeypatch.context() as unread:
        unread.setattr(safetensors, "read", None)  # no header is read again
        assert facts() == first
        assert checks() == found
    raw = (tiny / "model.safetensors").read_bytes()
    (tiny / "model.safetensors").write_bytes(raw[:-1])
    assert checks()["check.weights_readable"] == "fail"
    assert checks()["check.weights_readable"] == "fail"
    (tiny / "model.safetensors").write_bytes(raw)
    assert checks()["check.weights_readable"] == "pass"
