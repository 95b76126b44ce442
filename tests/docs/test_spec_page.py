"""The page on llm.toml: each of its specs is read, and nothing that a spec may hold is missing."""

from __future__ import annotations

import re
import sys

import pytest

from lockllm import engines
from lockllm.documents import spec
from lockllm.facts import registry
from lockllm.facts.fact import Policy
from tests.conftest import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXT = (ROOT / "docs" / "spec.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS)
def test_every_spec_of_the_page_is_read(text: str) -> None:
    table = ("tool", "lockllm") if "[tool.lockllm" in text else ()
    assert spec.read(text, "llm.toml", table=table, engines=engines).engine in engines.names()


def test_the_page_shows_every_table_that_is_no_group_of_facts() -> None:
    keys = {key for text in BLOCKS for key in tomllib.loads(text)}
    assert {
        "policy",
        "waive",
        "variant",
        "env_open",
        "checkpoint",
        "engine",
        "serve",
        "sampling",
        "env",
        "host",
    } <= keys


def test_the_page_names_every_engine_and_every_default_that_is_not_exact() -> None:
    assert [name for name in engines.names() if f"`{name}`" not in TEXT] == []
    assert [row.key for row in registry.ROWS if row.policy is not Policy.EXACT and f"`{row.key}`" not in TEXT] == []


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert [name for name in pages if f"[{name}]({name})" not in index] == []


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[\w-]+)?\)", page.read_text()):
            target = (page.parent / link).resolve() if link else page
            assert target.exists(), (page.name, link)
            if anchor:
                heads = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
                slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
                assert anchor[1:] in slugs, (page.name, link, anchor)
