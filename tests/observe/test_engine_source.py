"""The source of an installed engine: read as text, file by file, and no further than its package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lockllm.engines import Installed, load
from lockllm.observe.python import environments
from lockllm.observe.python.environments import Environment
from lockllm.observe.server import engine_source
from lockllm.observe.server.engine_source import Texts
from tests.engines.future import VERSION, VLLM
from tests.observe import hosts


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The packages of an environment that holds vLLM of a release that no table has."""
    home = hosts.environment(tmp_path / "venv", {})
    hosts.install(hosts.site(home), "vllm", VERSION, files=VLLM)
    return hosts.site(home)


def environment(site: Path) -> Environment:
    return environments.build("here", site, "3.12.1", (site,))


def read(site: Path) -> Installed:
    told = engine_source.installed(environment(site), load("vllm"))
    assert told is not None
    return told


def test_an_installed_package_gives_its_options(site: Path) -> None:
    told = read(site)
    assert (told.version, told.problem, told.doubts) == (VERSION, "", ())
    assert told.table is not None
    assert "vllm" not in sys.modules


def test_a_release_of_the_tables_is_not_looked_into(site: Path) -> None:
    (site / f"vllm-{VERSION}.dist-info").rename(site / "vllm-0.33.0.dist-info")
    metadata = site / "vllm-0.33.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace(VERSION, "0.33.0"))
    assert engine_source.installed(environment(site), load("vllm")) is None


@pytest.mark.parametrize("engine", ["tgi", "ollama", "lmdeploy"])
def test_other_engines_are_read_by_their_tables_alone(site: Path, engine: str) -> None:
    assert engine_source.installed(environment(site), load(engine)) is None


@pytest.mark.parametrize(
    "name",
    [
        "vllm/../vllm/version.py",
        "/etc/passwd.py",
        "torch/version.py",
        "vllm.py",
        "vllm/data.json",
        "vllm//version.py",
        "",
    ],
)
def test_no_file_outside_the_package_is_read(site: Path, name: str) -> None:
    (site / "torch").mkdir()
    for place in (site / "torch" / "version.py", site / "vllm" / "version.py", site / "vllm" / "data.json"):
        place.write_text("secret = 1\n")
    texts = Texts(environment(site), "vllm")
    assert texts["vllm/version.py"] == "secret = 1\n"
    assert name not in texts


def test_what_is_no_file_of_a_bearable_size_is_not_there(site: Path) -> None:
    os.mkfifo(site / "vllm" / "pipe.py")
    (site / "vllm" / "folder.py").mkdir()
    (site / "vllm" / "large.py").write_text("#" * (1 << 20) + "\n")
    (site / "vllm" / "zero.py").symlink_to("/dev/zero")
    texts = Texts(environment(site), "vllm")
    assert [name for name in ("pipe", "folder", "large", "zero", "gone") if f"vllm/{name}.py" in texts] == []
    assert list(texts) == []


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\xef\xbb\xbfX = 1\n", "X = 1\n"),
        (b"# -*- coding: utf-8 -*-\nX = 'caf\xc3\xa9'\n", "# -*- coding: utf-8 -*-\nX = 'caf\u00e9'\n"),
        (b"# no coding of ours\n", "# no coding of ours\n"),
        (b"\xff\xfe", None),
        (b"# -*- coding: latin-1 -*-\nX = 'caf'\n", None),
        (b"#!/usr/bin/python\n# vim: set fileencoding=rot13 :\nK = 1\n", None),
    ],
)
def test_a_file_is_read_in_the_encoding_that_python_reads_it_in(site: Path, raw: bytes, text: str | None) -> None:
    (site / "vllm" / "odd.py").write_bytes(raw)
    assert Texts(environment(site), "vllm").get("vllm/odd.py") == text


def test_no_more_files_are_read_than_any_release_needs(site: Path) -> None:
    texts = Texts(environment(site), "vllm")
    for number in range(500):
        (site / "vllm" / f"m{number}.py").write_text("")
        texts.get(f"vllm/m{number}.py")
    assert len(texts) == 400


def test_a_plugin_may_add_options_of_its_own(site: Path) -> None:
    folder = hosts.install(site, "loom-for-vllm", "1.0")
    (folder / "entry_points.txt").write_text(
        "[console_scripts]\nloom = loom:main\n\n[vllm.platform_plugins]\nloom = loom:register\n"
    )
    other = hosts.install(site, "other", "1.0")
    (other / "entry_points.txt").write_text("[other.plugins]\nvllm = other:register\n")
    own = site / f"vllm-{VERSION}.dist-info" / "entry_points.txt"
    own.write_text("[vllm.general_plugins]\nown = vllm.plugins:own\n")
    assert read(site).doubts == ("loom-for-vllm is a plugin of vllm, and may add options",)


def test_a_package_that_an_import_would_not_find_is_said(site: Path) -> None:
    (site / "vllm").rename(site / "elsewhere")
    told = read(site)
    assert (told.table, told.problem) == (None, f"the source of vllm {VERSION} is not found (here)")
