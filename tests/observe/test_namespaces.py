"""A process in a mount namespace of its own is looked at through it: what lies elsewhere on the host is not what it reads."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockllm.checkpoint import bounded, cache, links
from lockllm.observe import Request, observe
from lockllm.observe.process import proc
from lockllm.observe.python import environments
from lockllm.observe.safe import files
from lockllm.observe.server import find
from tests.conftest import TINY
from tests.observe import hosts

INSIDE = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit 9; shift 2; done; shift; exec "$@"'
"""Binds folders over others, pair by pair up to `--`, and becomes the rest."""


@contextmanager
def running(binds: Sequence[tuple[Path, Path]], argv: Sequence[str | Path]) -> Iterator[tuple[int, int]]:
    """A stand-in server in a mount namespace where each first folder lies over the second one."""
    pairs = [str(path) for pair in binds for path in pair]
    enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", INSIDE, "sh", *pairs, "--"]
    if shutil.which("unshare") is None or subprocess.run([*enter, "true"], capture_output=True).returncode != 0:
        pytest.skip("this kernel lets this user make no mount namespace")
    with hosts.running([*enter, *argv]) as found:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = hosts.environment(tmp_path / "venv", {"vllm": "0.10.2", "torch": "2.7.1+cu126"})
    hosts.program(made, "vllm")
    return made


def test_a_folder_that_is_mounted_over_the_model_is_what_the_server_reads(home: Path, tmp_path: Path) -> None:
    model, other = tmp_path / "model", tmp_path / "other"
    for folder in (model, other):
        shutil.copytree(TINY / "model", folder)
    (other / "generation_config.json").write_text('{"top_k": 7}')
    before = bounded.read_small(str(model / "generation_config.json"))
    with running([(other, model)], [home / "bin/vllm", "serve", model]) as (pid, _):
        found = find.by_pid(pid)
        assert found.process.root == Path(f"/proc/{pid}/root")
        assert files.start(found.process.path(str(model / "generation_config.json")), 100) == b'{"top_k": 7}'
        seen = observe(Request(pid=pid, gpu="none", quick=True))
    digests: dict[str, Any] = {reading.fact.key: reading.value for reading in seen.readings}
    import hashlib

    held = digests['checkpoint.files."generation_config.json"']["sha256"]
    assert held == hashlib.sha256(b'{"top_k": 7}').hexdigest()
    assert held != hashlib.sha256(before).hexdigest()


def test_a_process_of_our_own_namespace_is_read_by_plain_paths(home: Path) -> None:
    with hosts.running([home / "bin/vllm", "serve", "model"]) as (pid, _):
        assert find.by_pid(pid).process.root == Path("/")


@pytest.mark.parametrize("kind", ["file", "folder", "link to a link", "relative", "through a linked folder"])
def test_links_of_its_packages_are_followed_in_its_own_view(home: Path, tmp_path: Path, kind: str) -> None:
    store, other = tmp_path / "store", tmp_path / "other"
    hosts.install(store, "vllm", "0.10.2")
    hosts.install(other, "vllm", "0.10.2")
    metadata = other / "vllm-0.10.2.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 0.10.2", "Version: 0.9.0"))
    info = hosts.site(home) / "vllm-0.10.2.dist-info"
    target = store / "vllm-0.10.2.dist-info"
    if kind in ("folder", "through a linked folder"):
        shutil.rmtree(info)
        if kind == "folder":
            info.symlink_to(target)
        else:
            (tmp_path / "between").symlink_to(store)
            info.symlink_to(tmp_path / "between" / "vllm-0.10.2.dist-info")
    else:
        (info / "METADATA").unlink()
        place = target / "METADATA"
        if kind == "link to a link":
            (tmp_path / "link").symlink_to(place)
            place = tmp_path / "link"
        (info / "METADATA").symlink_to(os.path.relpath(place, info) if kind == "relative" else place)
    with running([(other, store)], [home / "bin/vllm", "serve", "model"]) as (pid, _):
        inside = environments.of_process(proc.read(pid))
    outside = environments.of_command((str(home / "bin/python"),), {}, "/")
    assert isinstance(inside, environments.Environment)
    assert isinstance(outside, environments.Environment)
    assert inside.distributions["vllm"].version == "0.9.0"
    assert outside.distributions["vllm"].version == "0.10.2"


@pytest.mark.parametrize("by_hand", [False, True], ids=["by the kernel", "by hand"])
def test_no_link_leads_out_of_another_root(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_hand: bool
) -> None:
    if by_hand:
        monkeypatch.setattr(links, "_syscall", lambda: None)
    store, other = tmp_path / "store", tmp_path / "other"
    for folder, text in ((store, "host"), (other, "inside")):
        folder.mkdir()
        (folder / "file").write_text(text)
    names = {"absolute": store / "file", "up": "../../../../../../../.." + str(store / "file"), "loop": "loop"}
    for name, target in names.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "folder").symlink_to(store)
    os.mkfifo(tmp_path / "pipe")
    with running([(other, store)], [home / "bin/vllm", "serve", "model"]) as (pid, _):
        root = f"/proc/{pid}/root{tmp_path}"
        for name in ("absolute", "up", "folder/file", "store/file"):
            assert bounded.read_small(f"{root}/{name}") == b"inside"
            assert links.real(f"{root}/{name}") == f"/proc/{pid}/root{store}/file"
        assert files.is_file(Path(root, "folder", "file"))
        assert files.names(Path(root, "folder")) == ["file"]
        for name in ("loop", "pipe", "missing"):
            with pytest.raises(bounded.Malformed):
                bounded.read_small(f"{root}/{name}")


def test_digests_are_kept_for_a_model_that_the_next_server_reads_in_a_namespace_of_its_own(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKLLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_FRESH_NS", -(10**9))
    first = shutil.copytree(TINY / "model", tmp_path / "first")
    second = shutil.copytree(TINY / "model", tmp_path / "second")
    (tmp_path / "model").mkdir()
    for folder, kept in ((first, False), (first, True), (second, False), (second, True)):
        with running([(folder, tmp_path / "model")], [home / "bin/vllm", "serve", tmp_path / "model"]) as (pid, _):
            seen = observe(Request(pid=pid, gpu="none", cache="any", timeout=0.3))
        evidence = {each.evidence for each in seen.readings if each.fact.path[:2] == ("checkpoint", "files")}
        assert evidence == {"cached" if kept else "computed"}
