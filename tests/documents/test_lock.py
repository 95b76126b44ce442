"""The rules of llm.lock: its bytes, what its comments mean, and what a newer or a hostile lock does."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lockllm.documents import lock as locks
from lockllm.documents.lock import Lock
from lockllm.errors import LockError
from lockllm.facts import keys
from lockllm.facts.observation import Raw
from tests.conftest import ROOT

EXAMPLE = (ROOT / "llm.lock.example").read_text()
HEAD = "lock_version = 1\n\n"


def facts(lock: Lock) -> tuple[Any, ...]:
    """All that decides a verdict."""
    return lock.values, lock.absent, lock.unpinned, lock.requires, lock.policy, lock.waive, lock.include, lock.exclude


def test_deleting_every_comment_changes_no_fact() -> None:
    bare = "\n".join(re.sub(r"  # via .*|^#.*", "", line) for line in EXAMPLE.splitlines())
    assert "#" not in bare
    assert facts(locks.read(bare)) == facts(locks.read(EXAMPLE))


@pytest.mark.parametrize(
    "via",
    ['x\n[policy]\n"*" = "ignore"', "\r[policy]", "\u2028[policy]", "\u202e", "x" * 500, "\x00", '"', "  # via y"],
)
def test_a_hostile_source_stays_a_comment_of_one_line(via: str) -> None:
    path = ("serve", "dtype")
    text = locks.write(Lock(values={path: "bfloat16"}, via={path: via}))
    (line,) = [each for each in text.splitlines() if each.startswith("dtype")]
    comment = line.partition("  # via ")[2]
    assert len(comment) <= 80
    assert comment.isascii()
    assert comment.isprintable()
    assert facts(locks.read(text)) == facts(Lock(values={path: "bfloat16"}))
    assert locks.write(locks.read(text)) == text


@pytest.mark.parametrize(
    "value", ["a  # via b", 'a"  # via b', "a\\  # via b", "# via", '\n[policy]\n"*" = "ignore"', "\u202e\x1b[31m"]
)
def test_a_value_that_looks_like_something_else_stays_a_value(value: str) -> None:
    lock = Lock(values={("serve", "attention_backend"): value, ("env", value): value})
    text = locks.write(lock)
    assert facts(locks.read(text)) == facts(lock)
    assert locks.read(text).via == {}
    assert locks.write(locks.read(text)) == text


def test_short_tables_come_first_and_every_fact_has_a_line() -> None:
    tables = re.findall(r"^\[+([\w.]+)\]+$", EXAMPLE, re.MULTILINE)
    assert tables[-2:] == ["checkpoint.files", "prompt_probes"]
    assert tables.index("policy") < tables.index("waive") < tables.index("checkpoint.files")
    lines = [line for line in EXAMPLE.splitlines() if " = " in line]
    assert len(lines) > len(locks.read(EXAMPLE).values)
    assert not any(re.search(r"  # via .*\d+\.\d+", line) for line in lines)


def test_order_in_memory_does_not_move_a_byte() -> None:
    lock = locks.read(EXAMPLE)
    turned = {path: lock.values[path] for path in reversed(list(lock.values))}
    assert locks.write(Lock(values=turned)) == locks.write(Lock(values=lock.values))


@pytest.mark.parametrize(
    "line", ['some.key = [1, { a = "b" }]', "x = 2026-01-01", "x = 2026-01-01T00:00:00", 'x = ""', "x = -1.5"]
)
def test_a_fact_of_another_release_is_kept_and_warned_about(line: str) -> None:
    lock = locks.read(f"{HEAD}[zukunft]\n{line}\n", "a.lock")
    (path,) = lock.values
    assert line in locks.write(lock)
    assert lock.warnings == (
        f"a.lock: this release does not know {keys.dotted(path)}; it is compared by plain equality",
    )  # fmt: skip


@pytest.mark.parametrize("raw", ['"zero"', "true", "1.5", "[1]", "2026-01-01"])
def test_a_value_that_its_fact_cannot_hold_is_kept_and_warned_about(raw: str) -> None:
    lock = locks.read(f"{HEAD}[serve]\nseed = {raw}\n", "a.lock")
    assert isinstance(lock.values[("serve", "seed")], Raw)
    assert f"seed = {raw}\n" in locks.write(lock)
    assert lock.warnings == ("a.lock: serve.seed is not of type whole number; it is compared by plain equality",)


def test_a_fact_that_is_held_and_absent_is_refused() -> None:
    with pytest.raises(LockError) as caught:
        locks.read(f'{HEAD}[serve]\nseed = 1\n\n[absent]\nserve = [\n  "seed",\n]\n', "a.lock")
    assert (caught.value.what, caught.value.where) == (
        "serve.seed is locked and also listed in [absent]", "a.lock, line 4",
    )  # fmt: skip


def test_very_deep_keys_are_no_trouble() -> None:
    lock = locks.read(f"{HEAD}[serve.args]\n{'.'.join('a' * 3000)} = 1\n")
    assert locks.read(locks.write(lock)).values == lock.values


@pytest.mark.parametrize(
    ("name", "safe"),
    [("config.json", True), ("a/b.json", True), ("..a", True), ("a..b", True), ("", False), ("..", False), ("a/../b", False),
     ("/a", False), ("\\a", False), ("C:\\a", False), ("a\\..\\b", False), ("a\nb", False), ("a\x00", False), ("x" * 5000, False)],
)  # fmt: skip
def test_a_file_stays_inside_the_checkpoint(name: str, safe: bool) -> None:
    assert locks.safe_name(name) is safe


@pytest.mark.parametrize(
    ("include", "exclude", "name", "selected"),
    [((), (), "a", True), (("*.json",), (), "a/b.json", True), (("*.json",), (), "a", False), ((), ("a/",), "a/b", False),
     ((), ("a/",), "ab", True), (("*",), ("*.bin",), "x.bin", False)],
)  # fmt: skip
def test_include_and_exclude_say_what_is_closed(include: Any, exclude: Any, name: str, selected: bool) -> None:
    assert Lock(include=include, exclude=exclude).selects(name) is selected


WHOLE = 'lock_version = 1\nedition = 2\nspec = "llm.toml"\nfacts = {facts}\n\n'


def test_a_lock_that_lost_lines_is_refused() -> None:
    lines = EXAMPLE.splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if line.startswith(("[", '  "')))
    for cut in range(8, last, 9):
        with pytest.raises(LockError):
            locks.read("".join(lines[:cut]), "a.lock")


def test_a_lock_of_new_rules_says_how_many_facts_it_holds() -> None:
    text = WHOLE.format(facts=2) + '[serve]\ndtype = "bfloat16"\n'
    with pytest.raises(LockError) as caught:
        locks.read(text, "a.lock")
    assert caught.value.what == "the lock holds 1 facts and says facts = 2: lines are missing"
    assert caught.value.where == "a.lock, line 4"
    assert caught.value.fix == "restore it from git; after merging by hand, write facts = 1"
    with pytest.raises(LockError, match="does not say how many facts"):
        locks.read(text.replace("facts = 2\n", ""), "a.lock")


def test_two_branches_that_add_a_line_each_merge_to_a_whole_lock() -> None:
    text = WHOLE.format(facts=1) + '[serve]\ndtype = "bfloat16"\nseed = 0\n'
    assert len(locks.read(text, "a.lock").values) == 2


def test_a_digest_over_the_files_that_is_not_theirs_is_refused() -> None:
    digest = re.search(r'^content_sha256 = "([0-9a-f]{64})"', EXAMPLE, re.MULTILINE)
    assert digest is not None
    with pytest.raises(LockError, match="the files listed below give"):
        locks.read(EXAMPLE.replace(digest[1], "0" * 64, 1), "a.lock")


@pytest.mark.parametrize("name", ["../other/llm.toml", "/etc/llm.toml", "a\\\\b", "", "..", "x\\ny"])
def test_the_spec_of_a_lock_lies_beside_it(name: str) -> None:
    text = f'lock_version = 1\nspec = "{name}"\n\n[serve]\ndtype = "bfloat16"\n'
    with pytest.raises(LockError, match="spec must be the name of a file beside the lock"):
        locks.read(text, "a.lock")


def test_a_comment_names_no_spec() -> None:
    text = locks.write(Lock(values={("serve", "dtype"): "bfloat16"}, edition=2, spec="served.toml"))
    assert locks.read(text).spec == "served.toml"
    other = text.replace("# Locked by lockllm from served.toml", "# Locked by lockllm from ../other/llm.toml")
    assert other != text
    assert locks.read(other) == locks.read(text)


@pytest.mark.parametrize("edition", ["3", "0", "true", '"2"'])
def test_rules_that_this_release_does_not_know_are_refused(edition: str) -> None:
    with pytest.raises(LockError, match="edition"):
        locks.read(f"lock_version = 1\nedition = {edition}\n", "a.lock")


def test_what_was_typed_is_read_as_it_was_written() -> None:
    typed = {("serve", "attention_backend"): "auto", ("serve", "args", "middleware"): ["a.B", "c.D"]}
    lock = Lock(values={("serve", "dtype"): "bfloat16"}, asked=typed, edition=2)
    assert locks.read(locks.write(lock)).asked == typed
    assert locks.write(locks.read(locks.write(lock))) == locks.write(lock)


@pytest.mark.parametrize("key", ["include", "exclude"])
@pytest.mark.parametrize("globs", [["x*"] * 501, ["*" * 20_001]])
def test_more_globs_than_files_can_be_held_against_are_refused(key: str, globs: list[str]) -> None:
    text = f'lock_version = 1\n\n[checkpoint]\nrepo = "a/b"\n{key} = {globs!r}\n'.replace("'", '"')
    with pytest.raises(LockError, match=f"checkpoint.{key} holds .* are read"):
        locks.read(text, "a.lock")


@pytest.mark.parametrize(
    "fact", ['checkpoint.files.\\"a.bin\\"', "checkpoint.files.*", "checkpoint.*", "*", "check*.f*.*"]
)
@pytest.mark.parametrize("found", ["{ size = 7 }", '"x"', '{ size = 7, sha256 = "12" }'])
def test_a_waiver_of_a_file_names_its_digest(fact: str, found: str) -> None:
    waiver = f'[[waive]]\nfact = "{fact}"\nfound = {found}\nreason = "spare"\n'
    head = 'lock_version = 1\nedition = 2\nspec = "llm.toml"\nfacts = 0\n\n'
    with pytest.raises(LockError, match="names no digest"):
        locks.read(head + waiver, "a.lock")
    digest = '{ size = 7, sha256 = "' + "0" * 64 + '" }'
    assert len(locks.read(head + waiver.replace(found, digest), "a.lock").waive) == 1
    assert len(locks.read("lock_version = 1\n" + waiver, "a.lock").waive) == 1
