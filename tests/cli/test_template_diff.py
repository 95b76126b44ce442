"""A change of the chat template, as a reviewer sees it: the text itself, and the probes that it moves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import SPEC, Call
from tests.conftest import TINY

OTHER = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}<assistant>"


def edit(folder: Path) -> tuple[str, str]:
    """The template before and after."""
    path = folder / "model" / "chat_template.jinja"
    before = path.read_text()
    path.write_text(OTHER)
    return before, OTHER


def forget(folder: Path) -> None:
    shutil.rmtree(folder / ".cache" / "templates", ignore_errors=True)


def marks(text: str) -> set[str]:
    """The first characters of the lines of a text diff."""
    return {line.strip()[:1] for line in text.splitlines() if "{% for" in line or "{%- for" in line}


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_dry_run_shows_what_the_template_was_and_becomes(folder: Path, call: Call, form: str) -> None:
    call("lock")
    _, after = edit(folder)
    done = call("lock", "--dry-run", "--format", form)
    assert done.code == 0
    assert f"+{after[:40]}" in done.out.replace("+ ", "+")
    assert marks(done.out) == {"+", "-"}
    assert "prompt_probes" in done.out


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_diff_of_two_locks_shows_it_too_and_leads_with_it(folder: Path, call: Call, form: str) -> None:
    call("lock", "-o", "one.lock")
    edit(folder)
    call("lock", "-o", "two.lock")
    done = call("diff", "one.lock", "two.lock", "--format", form)
    assert marks(done.out) == {"+", "-"}
    assert "prompt_probes" in done.out
    if form == "markdown":
        assert done.out.index("chat_template") < done.out.index("prompt_probes")


@pytest.mark.parametrize("words", [("verify", "--stage", "preflight"), ("inspect", "model")])
def test_whatever_looks_at_a_template_keeps_its_text(folder: Path, call: Call, words: tuple[str, ...]) -> None:
    call("lock", "-o", "llm.lock")
    call("lock", "-o", "one.lock")
    forget(folder)
    call(*words)
    edit(folder)
    call("lock", "-o", "two.lock")
    assert marks(call("diff", "one.lock", "two.lock").out) == {"+", "-"}


def test_a_text_that_nobody_kept_is_told_by_its_digest_alone(folder: Path, call: Call) -> None:
    call("lock", "-o", "one.lock")
    edit(folder)
    call("lock", "-o", "two.lock")
    forget(folder)
    done = call("diff", "one.lock", "two.lock")
    assert (done.code, marks(done.out)) == (0, set())
    assert "chat_template.sha256" in done.out


def test_texts_are_found_in_the_hubs_cache_by_commit(folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(folder / "hub"))
    repo = folder / "hub" / "models--acme--tiny"
    (repo / "refs").mkdir(parents=True)
    for commit, name in (("a" * 40, "one"), ("b" * 40, "two")):
        snapshot = repo / "snapshots" / commit
        shutil.copytree(TINY / "model", snapshot)
        if name == "two":
            (snapshot / "chat_template.jinja").write_text(OTHER)
        (folder / "llm.toml").write_text(SPEC.replace('path = "model"', f'repo = "acme/tiny"\nrevision = "{commit}"'))
        assert call("lock", "--offline", "-o", f"{name}.lock").code == 0
    forget(folder)
    assert marks(call("diff", "one.lock", "two.lock").out) == {"+", "-"}
    shutil.rmtree(folder / "hub")
    assert marks(call("diff", "one.lock", "two.lock").out) == {"+", "-"}
