"""An edited package is seen without reading it whole: by size, by time, by what lies beside a module."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lockllm.facts.observation import CheckStatus
from lockllm.observe.python import environments, installed, packages
from lockllm.observe.python.environments import Environment
from tests.observe import hosts

FILES = {
    "vllm/__init__.py": "from vllm.version import __version__\n",
    "vllm/version.py": '__version__ = "0.33.0"\n',
    "vllm/sampling.py": "TOP = 1\n",
    "vllm/v1/__init__.py": "\n",
    "vllm/v1/sampler.py": "x = 1\n",
    "vllm/_C.abi3.so": "ELF",
    "vllm-0.33.0.dist-info/entry_points.txt": "[console_scripts]\nvllm = vllm.main:main\n",
}


def place(folder: Path, direct: object = None) -> Environment:
    hosts.install(folder, "vllm", "0.33.0", direct)
    shutil.rmtree(folder / "vllm-0.33.0.dist-info")
    hosts.install(folder / "new", "vllm", "0.33.0", direct, FILES)
    for each in (folder / "new").iterdir():
        shutil.copytree(each, folder / each.name)
    return environment(folder)


def environment(folder: Path) -> Environment:
    return environments.build("test", folder, "3.11.7", (folder,))


def told(folder: Path) -> tuple[str, CheckStatus]:
    """The package as a lock of today holds it, and the finding."""
    here = environment(folder)
    edits, unread, _ = installed.touched(here, ["vllm"])
    value = packages.readings(here, None, ["vllm"], edits, 2)[0][0].value
    check = installed.unedited(here, edits, unread)
    assert check is not None
    return value, check.status


def same_size(folder: Path) -> None:
    (folder / "vllm/sampling.py").write_text("TOP = 2\n")


def same_size_and_time(folder: Path) -> None:
    path = folder / "vllm/v1/sampler.py"
    info = path.stat()
    path.write_text("x = 9\n")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def old_time(folder: Path) -> None:
    (folder / "vllm/v1/sampler.py").write_text("x = 9\n")
    os.utime(folder / "vllm/v1/sampler.py", (1, 1))


def exchanged(folder: Path) -> None:
    (folder / "other").write_text("x = 9\n")
    os.utime(folder / "other", (1, 1))
    (folder / "other").rename(folder / "vllm/v1/sampler.py")


def other_size(folder: Path) -> None:
    (folder / "vllm/__init__.py").write_text(FILES["vllm/__init__.py"] + "import evil\n")


def other_version(folder: Path) -> None:
    (folder / "vllm/version.py").write_text('__version__ = "0.34.0"\n')


def other_library(folder: Path) -> None:
    (folder / "vllm/_C.abi3.so").write_text("FLE")


def other_entry_point(folder: Path) -> None:
    (folder / "vllm-0.33.0.dist-info/entry_points.txt").write_text("[console_scripts]\nvllm = vllm.evil:main\n")


def gone(folder: Path) -> None:
    (folder / "vllm/sampling.py").unlink()


def one_file_in_its_place(folder: Path) -> None:
    shutil.rmtree(folder / "vllm")
    (folder / "vllm.py").write_text("evil = 1\n")


def linked(folder: Path) -> None:
    (folder / "other.py").write_text("TOP = 3\n")
    (folder / "vllm/sampling.py").unlink()
    (folder / "vllm/sampling.py").symlink_to(folder / "other.py")


def extension_beside(folder: Path) -> None:
    (folder / "vllm/sampling.cpython-311-x86_64-linux-gnu.so").write_text("ELF")


def plain_extension_beside(folder: Path) -> None:
    (folder / "vllm/v1/sampler.so").write_text("ELF")


def package_beside(folder: Path) -> None:
    (folder / "vllm/v1/sampler").mkdir()
    (folder / "vllm/v1/sampler/__init__.py").write_text("x = 9\n")


def pipe(folder: Path) -> None:
    (folder / "vllm/sampling.py").unlink()
    os.mkfifo(folder / "vllm/sampling.py")


EDITS = [
    same_size, same_size_and_time, old_time, exchanged, other_size, other_version, other_library, other_entry_point, gone,
    one_file_in_its_place, linked, extension_beside, plain_extension_beside, package_beside, pipe,
]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("direct", [None, {"url": "x", "vcs_info": {"vcs": "git", "commit_id": "4ba787ec9abc0000"}}])
def test_an_edit_is_seen_without_depth(tmp_path: Path, edit: Callable[[Path], None], direct: object) -> None:
    place(tmp_path, direct)
    before, check = told(tmp_path)
    assert "edited" not in before
    assert check is CheckStatus.PASS
    edit(tmp_path)
    after, check = told(tmp_path)
    if edit is one_file_in_its_place and direct is None:
        assert after.startswith("0.33.0 (shadowed by another copy, ")
    else:
        assert after.rpartition(" ")[0].endswith("edited")
    assert check is CheckStatus.FAIL


SCRIPT = """#!{python}
import sys
from {module} import main
if __name__ == "__main__":
    sys.exit(main())
"""


def scripted(home: Path, text: str, declared: str = "vllm.main:main") -> tuple[str, CheckStatus]:
    """An environment whose RECORD names its console script, with another text in it."""
    site = home / "lib/python3.11/site-packages"
    script = home / "bin/vllm"
    script.parent.mkdir(parents=True)
    site.mkdir(parents=True)
    place(site)
    script.write_text(SCRIPT.format(python="/opt/venv/bin/python", module="vllm.main"))
    digest = base64.urlsafe_b64encode(hashlib.sha256(script.read_bytes()).digest()).rstrip(b"=").decode()
    record = site / "vllm-0.33.0.dist-info/RECORD"
    record.write_text(f"{record.read_text()}../../../bin/vllm,sha256={digest},{script.stat().st_size}\n")
    assert told(site) == ("0.33.0", CheckStatus.PASS)
    script.write_text(text)
    return told(site)


@pytest.mark.parametrize("text", [
    SCRIPT.format(python="/opt/venv/bin/python", module="vllm.evil"), SCRIPT.format(python="/opt/venv/bin/python", module="os"),
    SCRIPT.format(python="/opt/venv/bin/python", module="vllm.main") + "import evil\n", "#!/bin/sh\nexec evil\n", "",
    SCRIPT.format(python="/opt/venv/bin/python", module="vllm.main").replace("main", "run"),
])  # fmt: skip
def test_an_edited_console_script_is_an_edit(tmp_path: Path, text: str) -> None:
    value, check = scripted(tmp_path, text)
    assert "edited" in value
    assert check is CheckStatus.FAIL


@pytest.mark.parametrize("python", ["/srv/moved/bin/python", "/usr/bin/env python3", "/opt/venv/bin/python3.11"])
def test_a_console_script_of_a_moved_environment_is_no_edit(tmp_path: Path, python: str) -> None:
    text = SCRIPT.format(python=python, module="vllm.main")
    assert scripted(tmp_path, text) == ("0.33.0", CheckStatus.PASS)


def test_two_copies_that_shadow_a_package_are_two(tmp_path: Path) -> None:
    place(tmp_path)
    values = []
    for text in ("evil = 1\n", "evil = 2\n", "evil = 1\n"):
        shutil.rmtree(tmp_path / "vllm", ignore_errors=True)
        (tmp_path / "vllm.py").write_text(text)
        values.append(told(tmp_path)[0])
    assert values[0] == values[2] != values[1]


def touched(folder: Path) -> None:
    for path in folder.rglob("*.py"):
        os.utime(path)


def compiled(folder: Path) -> None:
    (folder / "vllm/__pycache__").mkdir()
    (folder / "vllm/__pycache__/sampling.cpython-311.pyc").write_bytes(b"x")


def written_beside(folder: Path) -> None:
    (folder / "vllm/configs").mkdir()
    (folder / "vllm/configs/tuned.json").write_text("{}")
    (folder / "vllm/notes.txt").write_text("x")
    (folder / "vllm/sampling").mkdir()  # a folder without __init__ never stands for a module


def copied(folder: Path) -> None:
    shutil.move(folder / "vllm", folder / "was")
    shutil.copytree(folder / "was", folder / "vllm", copy_function=shutil.copyfile)


def linked_to_the_same(folder: Path) -> None:
    (folder / "vllm/sampling.py").rename(folder / "kept.py")
    (folder / "vllm/sampling.py").symlink_to(folder / "kept.py")


def named_by_another_installer(folder: Path) -> None:
    record = folder / "vllm-0.33.0.dist-info/RECORD"
    record.write_text(record.read_text() + "vllm-0.33.0.dist-info/INSTALLER,sha256=abc,4\n")
    (record.parent / "INSTALLER").write_text("conda\n")


@pytest.mark.parametrize(
    "change",
    [touched, compiled, written_beside, copied, linked_to_the_same, named_by_another_installer],
    ids=lambda change: change.__name__,
)
def test_what_moves_no_byte_of_a_package_is_no_edit(tmp_path: Path, change: Callable[[Path], None]) -> None:
    place(tmp_path)
    change(tmp_path)
    assert told(tmp_path) == ("0.33.0", CheckStatus.PASS)


def test_two_edits_of_one_release_are_two_and_one_is_the_same_again(tmp_path: Path) -> None:
    place(tmp_path)
    values = []
    for text in ("TOP = 2\n", "TOP = 3\n", "TOP = 2\n", "TOP = 22\n"):
        (tmp_path / "vllm/sampling.py").write_text(text)
        values.append(told(tmp_path)[0])
    assert values[0] == values[2]
    assert len(set(values)) == 3


def test_large_files_that_moved_are_told_and_no_pass(tmp_path: Path) -> None:
    place(tmp_path)
    with (tmp_path / "vllm/_C.abi3.so").open("wb") as file:
        file.truncate(300 << 20)
    record = tmp_path / "vllm-0.33.0.dist-info/RECORD"
    record.write_text(f"vllm/_C.abi3.so,sha256=abc,{300 << 20}\n")
    os.utime(tmp_path / "vllm/_C.abi3.so")
    here = environment(tmp_path)
    edits, unread, _ = installed.touched(here, ["vllm"])
    check = installed.unedited(here, edits, unread)
    assert check is not None
    assert check.status is CheckStatus.UNKNOWN
    assert "vllm/_C.abi3.so" in check.detail
