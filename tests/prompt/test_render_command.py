"""`lockllm render`: from files to a text, and every way in which they can be wrong."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lockllm.cli import run
from lockllm.prompt.command import shown

SIMPLE = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ strftime_now('%F') }}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.jinja").write_text(SIMPLE)
    (tmp_path / "r.json").write_text('{"messages": [{"role": "user", "content": "Zürich"}], "model": "any", "seed": 1}')
    (tmp_path / "s.json").write_text('{"bos_token": {"content": "<s>"}, "eos_token": null, "pad_token": "<p>"}')
    return tmp_path


def render(*words: str | Path) -> int:
    return run(["render", *map(str, words)])


def test_a_file_is_rendered(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    words = ["--template", folder / "t.jinja", "--request", folder / "r.json", "--special-tokens", folder / "s.json"]
    assert render(*words, "--now", "2026-03-05T14:30:07Z") == 0
    text = capsysbinary.readouterr().out
    assert text == "<s><user>Zürich2026-03-05".encode()
    assert render(*words, "--now", "2026-03-05", "--format", "json") == 0
    assert json.loads(capsysbinary.readouterr().out) == {
        "text": text.decode(),
        "sha256": hashlib.sha256(text).hexdigest(),
        "source": str(folder / "t.jinja"),
    }


def test_a_checkpoint_gives_template_and_tokens(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = [{"name": "default", "template": "D{{ bos_token }}"}, {"name": "tool_use", "template": "T{{ eos_token }}"}]
    config = {"chat_template": named, "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert render(folder) == 0
    assert capsys.readouterr().out == "D<s>"
    (folder / "r.json").write_text('{"messages": [{"role": "user", "content": "x"}], "tools": []}')
    assert render(folder, "--request", folder / "r.json") == 0
    assert capsys.readouterr().out == "T</s>"
    (folder / "chat_template.jinja").write_text("J{{ bos_token }}")
    assert render(folder, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["source"] == "chat_template.jinja"


def test_a_request_may_come_from_standard_input(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (folder / "r.json").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert render("--template", folder / "t.jinja", "--request", "-", "--now", "2026-03-05") == 0
    assert capsys.readouterr().out == "<user>Zürich2026-03-05"


WRONG = [
    ("t.jinja", b"\xff", "the template is no UTF-8", "save it as UTF-8"),
    ("t.jinja", b"{{ x( }}", "the chat template refuses this conversation: unexpected '}', expected ')' (line 1 of the template)",
     "change the request or the template"),
    ("t.jinja", b"{{ raise_exception('only\n one turn') }}", "the chat template refuses this conversation: only\\n one turn",
     "change the request or the template"),
    ("t.jinja", b"{{ 'x' * 10**11 }}", "the chat template is stopped: it needs more memory than it may take",
     "use a smaller template, or one that comes to an end"),
    ("r.json", b"[]", "the request must be a JSON object", "correct the file"),
    ("r.json", b"{}", "the request holds no messages", 'give it as {"messages": [{"role": "user", "content": "…"}]}'),
    ("r.json", b"[" * 100_000, "the request is nested too deeply", "flatten it"),
    ("r.json", b'{"messages": ' + b"1" * 5_000 + b"}", "the request is no JSON: it is no UTF-8 or holds a number too long",
     "correct the file"),
    ("s.json", b"5", "the special tokens must be a JSON object", "correct the file"),
]  # fmt: skip


@pytest.mark.parametrize("name, raw, what, fix", WRONG)
def test_a_wrong_file_is_told_with_its_name(
    folder: Path, name: str, raw: bytes, what: str, fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).write_bytes(raw)
    words = ["--template", folder / "t.jinja", "--request", folder / "r.json", "--special-tokens", folder / "s.json"]
    assert render(*words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"lockllm: {what}\n  in    {folder / name}\n  fix   {fix}\n"


def test_what_is_missing_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tokenizer_config.json").write_text("{}")
    template = ["--template", folder / "t.jinja"]
    for words, what in (
        ([], "no template is named"),
        ([folder / "none"], f"no checkpoint at {folder / 'none'}: no such file or directory"),
        (["--engine", "vlm", *template], "there is no engine 'vlm'"),
        ([folder], "the checkpoint has no chat template for this request: none of its files holds one"),
        (["--template", folder / "none"], "the template cannot be read: No such file or directory"),
        (["--template", folder], "the template cannot be read: Is a directory"),
        ([*template, "--request", folder / "none"], "the request cannot be read: No such file or directory"),
        ([*template, "--now", "yesterday"], "--now must be a date and time in ISO 8601, found 'yesterday'"),
    ):
        assert render(*words) == 2
        assert capsys.readouterr().err.splitlines()[0] == f"lockllm: {what}"


def test_a_checkpoint_that_is_odd_is_no_obstacle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import os

    os.mkfifo(folder / "chat_template.jinja")
    (folder / "tokenizer_config.json").write_bytes(b"[" * 100_000)
    assert render(folder) == 2
    assert "chat_template.jinja cannot be read" in capsys.readouterr().err


def test_special_tokens_that_cannot_be_read_are_asked_for(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tiny / "special_tokens_map.json").write_bytes(b"{")
    assert render(tiny) == 2
    told = "lockllm: special_tokens_map.json cannot be read, and what special tokens there are is not known"
    assert capsys.readouterr().err.splitlines()[0] == told
    (tiny.parent / "tokens.json").write_text('{"bos_token": "<s>"}')
    assert render(tiny, "--special-tokens", tiny.parent / "tokens.json") == 0


def test_a_terminal_is_given_nothing_to_obey() -> None:
    assert shown("a\x1b[31m\n\t\u202eb\x9bé", terminal=True) == "a\\x1b[31m\n\t\\u202eb\\x9bé"
    assert shown("a\x1b[31m", terminal=False) == "a\x1b[31m"


def test_a_gguf_gives_its_own_template_and_tokens(tiny_gguf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lockllm.checkpoint import look

    held = look(str(tiny_gguf), hashing="none")
    assert render(tiny_gguf, "--format", "json") == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["source"] == "GGUF: tokenizer.chat_template"
    assert "Name three primes." in plain["text"]
    assert render(tiny_gguf, "--engine", "llama.cpp", "--format", "json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out) == plain
    assert told.err.startswith("lockllm: warning: llama.cpp renders with a Jinja of its own")
    template = tiny_gguf.with_name("t.jinja")
    template.write_text("{{ bos_token }}{{ eos_token }}")
    assert render(tiny_gguf, "--template", template) == 0
    assert capsys.readouterr().out == held.special_tokens["bos_token"] + held.special_tokens["eos_token"]


def test_a_snapshot_or_repository_of_the_hubs_cache_is_a_checkpoint(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = tmp_path / "hub" / "models--acme--tiny"
    blobs, snapshot = repo / "blobs", repo / "snapshots" / ("a" * 40)
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("a" * 40)
    for file in tiny.iterdir():
        blob = blobs / hashlib.sha256(file.read_bytes()).hexdigest()
        file.rename(blob)
        (snapshot / file.name).symlink_to(f"../../blobs/{blob.name}")
    texts = []
    for path in (snapshot, repo):
        assert render(path, "--engine", "vllm") == 0
        texts.append(capsys.readouterr().out)
    assert "Name three primes." in texts[0]
    assert texts[0] == texts[1]


def test_the_engine_and_its_version_choose_among_templates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tokenizer_config.json").write_text('{"chat_template": "C", "processor_class": "P"}')
    (folder / "chat_template.jinja").write_text("J")
    (folder / "processor_config.json").write_text('{"chat_template": "P"}')
    for words, text in (
        ((), "J"),
        (("--engine", "tgi"), "C"),
        (("--engine", "vllm"), "P"),
        (("--engine", "transformers", "--engine-version", "5.0.0"), "P"),
        (("--engine", "transformers", "--engine-version", "4.57.0"), "J"),
    ):
        assert render(folder, *words) == 0, words
        assert capsys.readouterr().out == text, words
    assert render(folder, "--engine", "vllm", "--engine-version", "0.99") == 2
    assert "vllm 0.99 takes was not read" in capsys.readouterr().err
    assert render(folder, "--engine", "transformers", "--engine-version", "9.0") == 2
    assert "transformers 9.0" in capsys.readouterr().err


def test_content_reaches_the_template_as_the_engine_hands_it_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    call = {"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    (folder / "r.json").write_text(json.dumps({"messages": messages}))
    (folder / "t.jinja").write_text(
        "{{ messages[0].content }}|{{ messages[1].tool_calls[0].function.arguments is mapping }}"
    )
    words = ("--template", folder / "t.jinja", "--request", folder / "r.json")
    for engine, text in (("vllm", "a\nb|True"), ("sglang", "a b|True")):
        assert render(*words, "--engine", engine) == 0
        assert capsys.readouterr().out == text
    assert render(*words) == 0
    assert capsys.readouterr().out.endswith("|False")
    (folder / "r.json").write_text('{"messages": [{"role": "assistant", "tool_calls": [5]}]}')
    assert render(*words, "--engine", "vllm") == 2
    assert "vllm cannot read the messages of this request" in capsys.readouterr().err


def test_an_engine_that_would_take_a_template_of_its_own_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tekken.json").write_text("{}")
    (tmp_path / "params.json").write_text("{}")
    assert render(tmp_path, "--engine", "vllm") == 2
    assert "the engine takes a template of its own (built-in: mistral-common)" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["vllm", "sglang", "transformers", "tensorrt-llm", "lmdeploy"])
def test_servers_ask_for_an_answer_where_the_body_does_not_say(
    engine: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "t.jinja").write_text("{{ messages[-1].content }}|{{ add_generation_prompt }}")

    def text(body: dict[str, Any], *words: str) -> str:
        (folder / "r.json").write_text(json.dumps({"messages": [{"role": "user", "content": "a"}], **body}))
        assert render("--template", folder / "t.jinja", "--request", folder / "r.json", *words) == 0
        return capsys.readouterr().out

    assert text({}, "--engine", engine) == "a|True"
    assert text({"add_generation_prompt": False}, "--engine", engine) == "a|False"
    assert text({"add_generation_prompt": True}, "--engine", engine) == "a|True"
    assert text({}) == "a|False"
    assert text({"add_generation_prompt": True}) == "a|True"
