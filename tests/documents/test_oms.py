"""Statements of OpenSSF Model Signing: what model_signing wrote is read, what we write is read back, all else is refused."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockllm.documents import oms
from lockllm.documents.lock import Lock
from lockllm.errors import LockError, UsageError
from lockllm.facts.registry import find

BUNDLE = (Path(__file__).parent / "data" / "model-signing-1.1.1.sig").read_bytes()
"""What model_signing 1.1.1 wrote for a folder of seven files, signed with a key that was thrown away."""
ONE, OTHER = "1" * 64, "2" * 64


def lock(**files: str) -> Lock:
    return Lock(values={("checkpoint", "files", name): {"size": 3, "sha256": sha256} for name, sha256 in files.items()})


def document() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(oms.write("m", lock(a=ONE, b=OTHER)))
    return made


def test_a_bundle_of_model_signing_is_read_and_its_signature_is_told_as_unchecked() -> None:
    found = oms.read(BUNDLE, "model.sig")
    assert (found.model, len(found.files), found.signed) == ("model", 7, True)
    assert sorted(found.ignored) == [".git", ".gitattributes", ".github", ".gitignore"]
    assert all(len(each) == 64 for each in found.files.values())
    assert oms.expected(found, "model.sig").warnings == (
        "the signature of model.sig is not checked here: run model_signing verify",
    )
    bare = base64.b64decode(json.loads(BUNDLE)["dsseEnvelope"]["payload"])
    assert oms.read(bare, "x").files == found.files
    assert not oms.read(bare, "x").signed
    envelope = json.dumps(json.loads(BUNDLE)["dsseEnvelope"]).encode()
    assert oms.read(envelope, "x").files == found.files


def test_what_is_written_is_read_back_and_its_order_is_that_of_names() -> None:
    text = oms.write("acme/m", lock(b=OTHER, a=ONE))
    assert oms.read(text.encode(), "x") == oms.Statement(model="acme/m", files={"a": ONE, "b": OTHER})
    assert text == oms.write("acme/m", lock(a=ONE, b=OTHER))
    assert [each["name"] for each in json.loads(text)["predicate"]["resources"]] == ["a", "b"]


def test_one_file_stands_for_itself() -> None:
    made = json.loads(oms.write("tiny.gguf", lock(**{"tiny.gguf": ONE})))
    made["predicate"]["resources"][0]["name"] = "."
    assert oms.read(json.dumps(made).encode(), "x").files == {"tiny.gguf": ONE}


def test_a_lock_of_the_statement_is_closed_but_for_what_it_ignores() -> None:
    made = oms.expected(oms.Statement(model="m", files={"a": ONE}, ignored=("x[1]", ".git")), "s")
    assert made.values == {("checkpoint", "files", "a"): {"sha256": ONE}}
    assert made.selects("README.md")
    assert not made.selects("x[1]")
    assert not made.selects("x[1]/below")
    assert made.selects("x1")
    assert find(("checkpoint", "files", "a")).known


def test_a_lock_agrees_with_its_statement_or_is_refused() -> None:
    statement = oms.Statement(model="m", files={"a": ONE, "b": OTHER, "README.md": ONE})
    held = lock(a=ONE, b=OTHER)
    assert oms.agreed(held, statement, "llm.lock", "s") == held
    assert oms.agreed(Lock(), statement, "llm.lock", "s").values.keys() == oms.expected(statement, "s").values.keys()
    with pytest.raises(LockError) as told:
        oms.agreed(lock(a=OTHER, c=ONE), statement, "llm.lock", "s")
    assert told.value.what == "s does not hold the locked digest of a, c"


def test_a_lock_without_files_has_no_statement() -> None:
    with pytest.raises(UsageError, match="holds no digests of files"):
        oms.write("m", Lock())


def change(edit: Callable[[dict[str, Any]], Any]) -> bytes:
    made = copy.deepcopy(document())
    edit(made)
    return json.dumps(made).encode()


def resource(**more: str) -> Callable[[dict[str, Any]], Any]:
    return lambda made: made["predicate"]["resources"][0].update(more)


WRONG = [
    (b"\xff", "this is not JSON: "),
    (b"[" * 100_000, "this is not JSON: "),
    (b"[]", "this is not an OMS statement: it is not a JSON object"),
    (b"{}", "this is not an OMS statement: Object missing required field `_type`"),
    (b'{"payload": "e30=", "payloadType": "text/plain"}', "the envelope holds 'text/plain', and no in-toto statement"),
    (b'{"payload": "!", "payloadType": "application/vnd.in-toto+json"}', "the payload of the envelope is not base64: "),
    (b'{"payload": 5, "payloadType": "application/vnd.in-toto+json"}', "the payload of the envelope is not base64: "),
    (change(lambda made: made.update(_type="https://in-toto.io/Statement/v0.1")), "_type must be https://in-toto.io/Statement/v1, found"),
    (change(lambda made: made.update(predicateType="https://slsa.dev/provenance/v1")), "predicateType must be "),
    (change(lambda made: made["predicate"]["serialization"].update(method="shards")), "the statement digests 'shards': lockllm compares"),
    (change(resource(algorithm="blake3")), "'a' is digested by 'blake3'"),
    (change(resource(digest="1" * 63)), "'a' is digested by 'sha256'"),
    (change(resource(digest=OTHER)), "the digest of the subject is not that of the files"),
    (change(resource(name="b")), "'b' appears there twice"),
    (change(resource(name="../a")), "'../a' is not a plain relative path"),
    (change(resource(name="/a")), "'/a' is not a plain relative path"),
    (change(resource(name="a\x1b[31m")), "'a\\x1b[31m' is not a plain relative path"),
    (change(resource(name=".")), "'.' is not a plain relative path"),
    (change(lambda made: made["predicate"].update(resources=[])), "the statement names no file"),
    (change(lambda made: made.update(subject=[])), "the statement must have one subject, found 0"),
    (change(lambda made: made["predicate"].pop("serialization")), "this is not an OMS statement: Object missing"),
]  # fmt: skip


@pytest.mark.parametrize("data, what", WRONG, ids=range(len(WRONG)))
def test_what_is_no_statement_is_refused_in_words(data: bytes, what: str) -> None:
    with pytest.raises(UsageError) as told:
        oms.read(data, "model.sig")
    assert told.value.what.startswith(what)
    assert told.value.where == "model.sig"


def test_later_fields_of_the_predicate_are_passed_over() -> None:
    assert oms.read(change(lambda made: made["predicate"].update(card={"any": 1})), "x").files == {"a": ONE, "b": OTHER}
