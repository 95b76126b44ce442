"""A module that no distribution brought is imported all the same, and a lock that says absent does not match it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockllm.observe.python import environments, packages
from tests.observe import hosts

MODULES = {
    "flash-attn": "flash_attn/__init__.py",
    "outlines-core": "outlines_core/__init__.py",
    "xgrammar": "xgrammar.py",
    "pillow": "PIL/__init__.py",
    "flashinfer-python": "flashinfer/__init__.py",
    "fastokens": "fastokens.abi3.so",
}


def told(*folders: Path, name: str, edition: int = 2) -> object:
    environment = environments.build("test", folders[0], "3.11.7", folders)
    return packages.readings(environment, None, [name], {}, edition)[0][0].value


def write(folder: Path, name: str, text: str = "x = 1\n") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize("before", [True, False], ids=["before site-packages", "in site-packages"])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_no_distribution_is_told_with_a_digest(tmp_path: Path, name: str, before: bool) -> None:
    site, front = tmp_path / "site-packages", tmp_path / "front"
    hosts.install(site, "torch", "2.9.0", files={"torch/__init__.py": "\n"})
    front.mkdir()
    absent = told(front, site, name=name, edition=1)
    assert told(front, site, name=name) == absent
    place = front if before else site
    write(place, MODULES[name])
    first = told(front, site, name=name)
    assert str(first).startswith("of no distribution, ")
    assert told(front, site, name=name, edition=1) == absent
    write(place, MODULES[name], "x = 2\n")
    assert told(front, site, name=name) != first
    write(place, MODULES[name])
    (place / "__pycache__").mkdir()
    assert told(front, site, name=name) == first


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_another_distribution_brought_is_its_own(tmp_path: Path, name: str) -> None:
    absent = told(tmp_path, name=name)
    hosts.install(tmp_path, "other", "1.0", files={MODULES[name]: "x = 1\n"})
    assert told(tmp_path, name=name) == absent
    (tmp_path / "other-1.0.dist-info/RECORD").unlink()
    module = MODULES[name].partition("/")[0].partition(".")[0]
    (tmp_path / "other-1.0.dist-info/top_level.txt").write_text(f"more\n{module}\n")
    assert told(tmp_path, name=name) == absent
