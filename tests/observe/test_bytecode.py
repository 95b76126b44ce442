"""Compiled modules that an import takes in place of their source: edited, stale, written by an installer or since."""

from __future__ import annotations

import importlib.util
import marshal
import os
import py_compile
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lockllm.facts.observation import CheckStatus
from lockllm.observe.python import bytecode, environments, installed
from lockllm.observe.python.environments import Environment
from tests.observe import hosts

FILES = {
    "vllm/__init__.py": "\n",
    "vllm/sampler.py": "TOP = 1\n\n\ndef draw(logits):\n    return logits[0] if TOP in {'a', 'b', 'c'} else -0.0\n",
    "vllm/v1/__init__.py": "from vllm import sampler\n",
}
MODES = {
    "by time": py_compile.PycInvalidationMode.TIMESTAMP,
    "by a hash that is checked": py_compile.PycInvalidationMode.CHECKED_HASH,
    "by a hash that is not checked": py_compile.PycInvalidationMode.UNCHECKED_HASH,
}
EVIL = "TOP = 1\n\n\ndef draw(logits):\n    return logits[1] if TOP in {'a', 'b', 'c'} else -0.0\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = hosts.environment(tmp_path / "venv", {})
    hosts.install(hosts.site(home), "vllm", "0.33.0", files=FILES)
    return home


def environment(home: Path) -> Environment:
    found = environments.of_command((str(home / "bin/python"), "-m", "vllm"), {"PYTHONSAFEPATH": "1"}, "/")
    assert found is not None
    return found


def compiled(home: Path, mode: py_compile.PycInvalidationMode = MODES["by time"]) -> dict[str, Path]:
    site = hosts.site(home)
    return {
        name: Path(str(py_compile.compile(str(site / name), invalidation_mode=mode, doraise=True))) for name in FILES
    }


def installed_last(home: Path) -> None:
    """RECORD is what an installer writes last."""
    record = hosts.site(home) / "vllm-0.33.0.dist-info/RECORD"
    record.write_text(record.read_text())


def tamper(path: Path) -> None:
    """Other code behind the header that the interpreter looks at."""
    head = path.read_bytes()[:16]
    path.write_bytes(head + marshal.dumps(compile(EVIL, "vllm/sampler.py", "exec", dont_inherit=True)))


def quick(home: Path) -> CheckStatus:
    touched = installed.touched(environment(home), ["vllm"])
    assert touched.edits == {"vllm": ()}
    return bytecode.unproven(touched.compiled).status


def deep(home: Path) -> tuple[CheckStatus, tuple[str, ...]]:
    check, differ = bytecode.compared(environment(home), ["vllm"], home / "bin/python")
    return check.status, differ


@pytest.mark.parametrize("mode", MODES)
def test_bytecode_that_is_not_its_sources_is_found_in_depth_and_never_passes(home: Path, mode: str) -> None:
    path = compiled(home, MODES[mode])["vllm/sampler.py"]
    assert deep(home) == (CheckStatus.PASS, ())
    installed_last(home)
    assert quick(home) is CheckStatus.PASS
    tamper(path)
    assert quick(home) is CheckStatus.UNKNOWN
    assert deep(home) == (CheckStatus.FAIL, (str(path.relative_to(hosts.site(home))),))


def test_bytecode_that_a_server_wrote_is_not_proven_without_depth(home: Path) -> None:
    installed_last(home)
    compiled(home)
    assert quick(home) is CheckStatus.UNKNOWN
    assert deep(home) == (CheckStatus.PASS, ())


def stale(path: Path, source: Path) -> None:
    source.write_text(FILES["vllm/sampler.py"])
    os.utime(source, (1, 1))


def of_another_release(path: Path, source: Path) -> None:
    path.rename(path.with_name("sampler.cpython-27.pyc"))


def cut(path: Path, source: Path) -> None:
    path.write_bytes(path.read_bytes()[:12])


def of_no_known_kind(path: Path, source: Path) -> None:
    path.write_bytes(path.read_bytes()[:4] + b"\x09\0\0\0" + path.read_bytes()[8:])


def a_folder(path: Path, source: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "change", [stale, of_another_release, cut, of_no_known_kind, a_folder], ids=lambda each: each.__name__
)
def test_bytecode_that_no_import_takes_is_no_finding(home: Path, change: Callable[[Path, Path], None]) -> None:
    paths = compiled(home)
    installed_last(home)
    tamper(paths["vllm/sampler.py"])
    change(paths["vllm/sampler.py"], hosts.site(home) / "vllm/sampler.py")
    assert quick(home) is CheckStatus.PASS
    assert deep(home) == (CheckStatus.PASS, ())


@pytest.mark.parametrize("raw", [b"", b"x", marshal.dumps(7), b"\xe3" + b"\xff" * 64])
def test_bytecode_that_is_no_code_differs_and_ends_nothing(home: Path, raw: bytes) -> None:
    path = compiled(home)["vllm/sampler.py"]
    path.write_bytes(path.read_bytes()[:16] + raw)
    assert deep(home)[0] is CheckStatus.FAIL


def test_the_header_names_time_and_size_of_the_source(home: Path) -> None:
    path = compiled(home)["vllm/sampler.py"]
    source = hosts.site(home) / "vllm/sampler.py"
    assert path == Path(importlib.util.cache_from_source(str(source)))
    assert bytecode.is_loaded(path, source)
    os.utime(source, (2, 2))
    assert not bytecode.is_loaded(path, source)
    assert path.name.endswith(f"cpython-{sys.version_info[0]}{sys.version_info[1]}.pyc")
