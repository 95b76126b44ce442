"""A pointer, a web page, an error or nothing in the place of a file: a finding, and nothing of it is in force."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockllm.checkpoint import look
from lockllm.facts.observation import CheckStatus
from lockllm.prompt import readings

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 11422654\n"
PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>{{ user }}</body></html>" + b" " * 9000
PLACEHOLDERS = {
    "a pointer": (POINTER, "is a Git LFS pointer, not the content"),
    "a page": (PAGE, "is a web page, not the content"),
    "a page in small letters": (b"\n <html lang=en>", "is a web page, not the content"),
    "empty": (b"", "is empty"),
    "blanks": (b" \n\n", "holds nothing but blanks or zeros"),
    "zeros": (bytes(512), "holds nothing but blanks or zeros"),
    "an error": (b'{"error":"Repository not found"}', "is the error of a server, not the content: 'Repository not found'"),
    "an error with more": (b'{"statusCode": 404, "message": "x", "error": "Not Found"}', "is the error of a server, not the content: 'x'"),
    "an error of S3": (b'<?xml version="1.0"?>\n<Error><Code>NoSuchKey</Code></Error>', "is the error of a server, not the content"),
    "a word": (b"Entry not found", "is the error of a server, not the content: 'Entry not found'"),
    "a status": (b"502 Bad Gateway\n", "is the error of a server, not the content: '502 Bad Gateway'"),
    "denied": (b"Access to model x is restricted.", "is the error of a server, not the content: 'Access to model x is restricted.'"),
}  # fmt: skip
FILES = [
    "chat_template.jinja", "chat_template.json", "additional_chat_templates/rag.jinja", "tokenizer.json", "tokenizer_config.json",
    "tokenizer.model", "tiktoken.model", "x.tiktoken", "tekken.json", "vocab.json", "vocab.txt", "special_tokens_map.json",
    "preprocessor_config.json", "processor_config.json", "config.json", "generation_config.json", "hf_quant_config.json",
    "mmproj-x.gguf",
]  # fmt: skip


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("what", PLACEHOLDERS)
def test_a_file_that_is_not_its_content_is_named(what: str, file: str, tiny: Path) -> None:
    raw, problem = PLACEHOLDERS[what]
    (tiny / file).parent.mkdir(exist_ok=True)
    (tiny / file).write_bytes(raw)
    found = {check.name: check for check in look(str(tiny)).checks}["check.no_pointer_files"]
    assert (found.status, found.detail) == (CheckStatus.FAIL, f"{file} {problem}")


@pytest.mark.parametrize("file", ["chat_template.jinja", "tokenizer_config.json"])
@pytest.mark.parametrize("what", PLACEHOLDERS)
def test_nothing_is_in_force_of_a_template_that_is_none(what: str, file: str, tiny: Path) -> None:
    if file == "tokenizer_config.json":
        (tiny / "chat_template.jinja").unlink()
    (tiny / file).write_bytes(PLACEHOLDERS[what][0])
    seen = look(str(tiny))
    prompt = readings.observe(seen.read, seen.names, readings.Setup(engine="vllm", version="0.33.0"))
    assert prompt.resolution.winner is None
    assert {each.fact.group for each in prompt.readings} == set()
    assert ("chat_template",) in {each.path for each in prompt.unobserved}


def _in_config(folder: Path, text: str) -> readings.Prompt:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": text}))
    seen = look(str(folder))
    return readings.observe(seen.read, seen.names)


@pytest.mark.parametrize("text", ["", " \n", POINTER.decode(), "<html>{{ messages }}</html>", "<!doctype html>"])
def test_what_stands_in_place_of_a_template_inside_a_file_is_not_in_force(text: str, tiny: Path) -> None:
    prompt = _in_config(tiny, text)
    assert (prompt.resolution.winner, prompt.readings) == (None, ())
    assert ("chat_template",) in {each.path for each in prompt.unobserved}


@pytest.mark.parametrize("text", ["Not Found", "{# all #}", "hello", "{{ bos_token }}"])
def test_a_template_that_says_nothing_of_any_conversation_is_a_finding(text: str, tiny: Path) -> None:
    prompt = _in_config(tiny, text)
    found = {check.name: check for check in prompt.checks}["check.template_renders"]
    assert found.status is CheckStatus.FAIL
    assert found.detail == "tokenizer_config.json prints the same text for every conversation"


@pytest.mark.parametrize(
    ("file", "raw"),
    [
        ("generation_config.json", b"{}"), ("added_tokens.json", b"{}"), ("added_tokens.json", b""), ("merges.txt", b""),
        ("special_tokens_map.json", b"{}"), ("vocab.json", b'{"error": 5, "message": 6}'), ("modeling_x.py", b""), ("__init__.py", b""),
        ("notes.dat", b"<html>"), ("vocab.txt", b"404\nNot\nFound\n[UNK]\n"), ("chat_template.jinja", b"Not found: {{ messages }}"),
        ("preprocessor_config.json", b'{"name": "x"}'),
    ],
)  # fmt: skip
def test_what_may_be_the_content_is_no_finding(file: str, raw: bytes, tiny: Path) -> None:
    (tiny / file).write_bytes(raw)
    found = {check.name: check for check in look(str(tiny)).checks}["check.no_pointer_files"]
    assert found.status is CheckStatus.PASS, found.detail
