"""`--python` runs an interpreter: none whose settings or start-up code somebody else may write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lockllm.facts.observation import Unobserved
from lockllm.observe.python import interpreter
from lockllm.observe.python.environments import Environment
from tests.observe import hosts


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = hosts.environment(tmp_path / "venv", {"vllm": "0.33.0"})
    code = f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    (hosts.site(made) / "code.pth").write_text(code)
    (hosts.site(made) / "sitecustomize.py").write_text("x = 1\n")
    (hosts.site(made) / "hook").mkdir()
    return made


PLACES = {
    "the environment": ".",
    "its settings": "pyvenv.cfg",
    "bin": "bin",
    "lib": "lib",
    "the release": "lib/{python}",
    "site-packages": "lib/{python}/site-packages",
    "a path file": "lib/{python}/site-packages/code.pth",
    "a hook": "lib/{python}/site-packages/sitecustomize.py",
    "a package": "lib/{python}/site-packages/hook",
    "metadata": "lib/{python}/site-packages/vllm-0.33.0.dist-info",
}


def at(home: Path, name: str) -> Path:
    return home / PLACES[name].format(python=hosts.site(home).parent.name)


@pytest.mark.parametrize("name", PLACES)
def test_nothing_that_everybody_may_write_is_run(home: Path, name: str) -> None:
    place = at(home, name)
    place.chmod(0o777)
    gap = interpreter.ask(str(home / "bin/python"))
    assert isinstance(gap, Unobserved)
    assert f"is not run: everybody can write {place}" in gap.reason
    assert not (home.parent / "ran").exists()
    assert interpreter.allowed(str(home)) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("change", ["user", "group"])
@pytest.mark.parametrize("name", sorted(PLACES))
def test_nothing_of_another_user_or_group_is_run(home: Path, name: str, change: str) -> None:
    place = at(home, name)
    if change == "user":
        os.chown(place, 65534, 0)
        place = at(home, "site-packages") if name == "the environment" else place
        os.chown(place, 65533 if name == "the environment" else 65534, 0)
    else:
        os.chown(place, 0, 54321)
        place.chmod(0o775)
    gap = interpreter.ask(str(home / "bin/python"))
    assert isinstance(gap, Unobserved)
    assert str(place) in gap.reason
    assert not (home.parent / "ran").exists()


def test_an_environment_of_its_own_user_is_asked(home: Path) -> None:
    found = interpreter.ask(str(home))
    assert isinstance(found, Environment)
    assert found.distributions["vllm"].version == "0.33.0"
    assert (home.parent / "ran").exists()


def test_a_link_that_leads_nowhere_refuses_nothing(home: Path) -> None:
    (hosts.site(home) / "gone.pth").symlink_to(home / "nowhere")
    assert isinstance(interpreter.ask(str(home)), Environment)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_runs_the_environment_of_a_user_as_that_user(home: Path) -> None:
    for path in (home, *home.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    assert interpreter.refusal(home / "bin/python") is None
    assert interpreter.rights(home / "bin/python") == {"user": 65534, "group": 65534, "extra_groups": ()}
