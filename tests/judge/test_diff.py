"""What a reviewer sees of two locks: nothing that decides a verdict may change unseen."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lockllm.documents.lock import Lock
from lockllm.documents.terms import Waiver
from lockllm.facts.fact import Kind, Policy
from lockllm.judge.diff import diff, stale

DTYPE, PARSER = ("serve", "dtype"), ("serve", "reasoning_parser")
HELD = Lock(values={DTYPE: "bfloat16"}, edition=2)
WAIVER = Waiver(fact="host.gpu_product", found="NVIDIA H100 PCIe", reason="two spare nodes")

WEAKER = {
    "exclude": ({"exclude": ("x*",)}, "checkpoint.exclude", None, ["x*"]),
    "include": ({"include": ("*.safetensors",)}, "checkpoint.include", None, ["*.safetensors"]),
    "policy": ({"policy": {"serve.dtype": Policy.REPORT}}, 'policy."serve.dtype"', None, "report"),
    "policy-exact": ({"policy": {"serve.dtype": Policy.EXACT}}, 'policy."serve.dtype"', None, "exact"),
    "requires": ({"requires": {("host", "driver"): ">=550"}}, 'requires."host.driver"', None, ">=550"),
    "waiver": (
        {"waive": (WAIVER,)}, 'waive."host.gpu_product"."NVIDIA H100 PCIe"', None, "until for good: two spare nodes",
    ),
    "absent": ({"absent": frozenset({PARSER})}, "absent.serve.reasoning_parser", None, "listed"),
    "asked": ({"asked": {PARSER: "qwen3"}}, "asked.serve.reasoning_parser", None, "qwen3"),
    "accepted": ({"accepted": (DTYPE,)}, "accepted.serve.dtype", None, "taken from a host"),
    "env_open": ({"env_open": ("NCCL_*",)}, "env_open", None, ["NCCL_*"]),
    "spec": ({"spec": "other.toml"}, "spec", None, "other.toml"),
    "edition": ({"edition": 1}, "edition", 2, 1),
}  # fmt: skip


@pytest.mark.parametrize(("change", "key", "before", "after"), WEAKER.values(), ids=WEAKER)
def test_what_decides_a_verdict_is_shown(change: dict[str, Any], key: str, before: Any, after: Any) -> None:
    other = msgspec.structs.replace(HELD, **change)
    (shown,) = diff(HELD, other).changes
    assert (shown.fact.key, shown.before, shown.after, shown.kind) == (key, before, after, Kind.RULES)
    assert diff(HELD, other).verdict == "rules"
    (back,) = diff(other, HELD).changes
    assert (back.fact.key, back.before, back.after) == (key, after, before)
    assert stale(HELD, other) == ([key] if key != "edition" else [])


@pytest.mark.parametrize(
    "waiver",
    [msgspec.structs.replace(WAIVER, until="2027-01-31"), msgspec.structs.replace(WAIVER, reason="another reason")],
)
def test_a_waiver_that_lives_longer_or_has_another_reason_is_shown(waiver: Waiver) -> None:
    one, other = (msgspec.structs.replace(HELD, waive=(each,)) for each in (WAIVER, waiver))
    assert [change.change for change in diff(one, other).changes] == ["changed"]


def test_a_fact_that_left_for_absent_is_shown_once() -> None:
    gone = msgspec.structs.replace(HELD, values={}, absent=frozenset({DTYPE}))
    (shown,) = diff(HELD, gone).changes
    assert (shown.fact.path, shown.change, shown.kind) == (DTYPE, "removed", Kind.STEP)


def test_a_new_lock_is_not_told_by_its_spec_and_edition() -> None:
    assert [change.fact.path for change in diff(Lock(), HELD).changes] == [DTYPE]


def test_equal_locks_differ_in_nothing() -> None:
    for change, *_ in WEAKER.values():
        held = msgspec.structs.replace(HELD, **change)
        assert diff(held, held).changes == ()


def file(letter: str, size: int = 1) -> dict[str, Any]:
    return {"size": size, "sha256": letter * 64}


def files(**held: str) -> Lock:
    return Lock(values={("checkpoint", "files", name.replace("_", ".")): file(letter) for name, letter in held.items()})


def said(before: Lock, after: Lock) -> list[tuple[str, str, Any, Any, str | None, str]]:
    return [
        (each.fact.path[-1], each.change, each.before, each.after, each.moved_from, each.effect)
        for each in diff(before, after).changes
    ]


def test_a_file_under_another_name_has_moved() -> None:
    before, after = files(a_bin="a", same_bin="s", gone_bin="g"), files(b_bin="a", same_bin="s", new_bin="n")
    rows = {row[0]: row for row in said(before, after)}
    assert rows["b.bin"] == (
        "b.bin", "moved", file("a"), file("a"), 'checkpoint.files."a.bin"', "the file has another name",
    )  # fmt: skip
    assert (rows["gone.bin"][1], rows["gone.bin"][3]) == ("removed", None)
    assert (rows["new.bin"][1], rows["new.bin"][2]) == ("added", None)
    assert set(rows) == {"b.bin", "gone.bin", "new.bin"}
    assert diff(before, after).verdict == "step"
    assert diff(files(a_bin="a"), files(b_bin="a")).verdict == "nothing"


def test_a_file_that_changed_in_its_place_has_not_moved() -> None:
    before, after = files(a_bin="a", b_bin="b"), files(a_bin="b", c_bin="b")
    rows = {row[0]: row[1] for row in said(before, after)}
    assert rows == {"a.bin": "changed", "c.bin": "moved"}


@pytest.mark.parametrize(
    ("kinds", "verdict"),
    [
        ((), "nothing"), (("checkpoint.repo",), "nothing"), (("serve.tensor_parallel_size",), "noise"), (("chat_template.sha256",), "step"),
        (("serve.tensor_parallel_size", "chat_template.sha256"), "step"), (("chat_template.sha256", "serve.tensor_parallel_size"), "step"),
        (("checkpoint.repo", "serve.tensor_parallel_size"), "noise"),
    ],
)  # fmt: skip
def test_the_verdict_is_that_of_the_gravest_change(kinds: tuple[str, ...], verdict: str) -> None:
    values = {
        "checkpoint.repo": ("a/b", "c/d"),
        "serve.tensor_parallel_size": (1, 2),
        "chat_template.sha256": ("a" * 64, "b" * 64),
    }
    sides = [Lock(values={tuple(key.split(".")): values[key][number] for key in kinds}) for number in (0, 1)]
    assert diff(*sides).verdict == verdict
    assert diff(*reversed(sides)).verdict == verdict


def test_both_sides_have_their_names_and_warnings() -> None:
    one, other = Lock(warnings=("first",)), Lock(warnings=("second",))
    found = diff(one, other, names=("a.lock", "b.lock"))
    assert (found.before, found.after, found.warnings) == ("a.lock", "b.lock", ("first", "second"))
    assert (diff(one, other).before, diff(one, other).after) == ("before", "after")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({DTYPE: "bfloat16"}, {DTYPE: "float16"}, ("changed", "bfloat16", "float16")),
        ({}, {DTYPE: "float16"}, ("added", None, "float16")),
        ({DTYPE: "bfloat16"}, {}, ("removed", "bfloat16", None)),
    ],
)
def test_a_fact_is_changed_added_or_removed(before: Any, after: Any, expected: tuple[Any, ...]) -> None:
    (change,) = diff(Lock(values=before), Lock(values=after)).changes
    assert (change.change, change.before, change.after) == expected
    assert (change.kind, change.effect) == (Kind.STEP, change.fact.effect)
    assert change.effect


def test_a_fact_that_one_lock_lists_as_absent_was_added() -> None:
    (change,) = diff(Lock(absent=frozenset({DTYPE})), Lock(values={DTYPE: "float16"})).changes
    assert (change.change, change.before, change.after) == ("added", None, "float16")


@pytest.mark.parametrize(("change", "key"), [(each[0], each[1]) for each in WEAKER.values()], ids=WEAKER)
def test_how_a_host_is_judged_is_added_changed_or_removed(change: dict[str, Any], key: str) -> None:
    other = msgspec.structs.replace(HELD, **change)
    (shown,) = diff(HELD, other).changes
    (back,) = diff(other, HELD).changes
    words = {(None, True): "added", (True, None): "removed", (True, True): "changed"}
    assert shown.change == words[(shown.before and True, shown.after and True)]
    assert back.change == words[(back.before and True, back.after and True)]
    assert (shown.fact.known, shown.fact.fix, shown.effect) == (False, "", shown.fact.effect)
    assert shown.fact.type.name == "any value"
    effects = {
        "checkpoint.exclude": "other files are left out", "checkpoint.include": "other files are looked at",
        "absent.serve.reasoning_parser": "whether a host that has it is a mismatch",
        "asked.serve.reasoning_parser": "whether a host that is started with it is a mismatch",
        "accepted.serve.dtype": "the value is the host's, not what the spec resolves to", "env_open": "other variables may differ",
        "spec": "the checkpoint's path is read from another spec", "edition": "rules that came with a release hold or do not",
    }  # fmt: skip
    assert shown.effect == effects.get(key, "differences are judged otherwise")


def test_a_lock_beside_none_is_told_by_its_facts_and_rules_alone() -> None:
    other = msgspec.structs.replace(HELD, spec="other.toml", policy={"host.driver": Policy.REPORT})
    assert [each.fact.key for each in diff(other, Lock()).changes] == ["serve.dtype", 'policy."host.driver"']


def test_what_is_typed_is_told_by_itself_only_where_no_value_tells_it() -> None:
    path = ("serve", "ctx_size")
    one, other = Lock(values={path: 512}, asked={path: 512}), Lock(values={path: 256}, asked={path: 256})
    assert [change.fact.key for change in diff(one, other).changes] == ["serve.ctx_size"]
    typed = Lock(values={path: 512}, asked={path: 512}), Lock(values={path: 512}, asked={path: "not given"})
    assert [change.fact.key for change in diff(*typed).changes] == ["asked.serve.ctx_size"]
    open_ = (Lock(asked={path: 512}), Lock(asked={path: 256}))
    assert [change.fact.key for change in diff(*open_).changes] == ["asked.serve.ctx_size"]
