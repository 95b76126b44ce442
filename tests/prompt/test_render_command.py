"""`lockllm render`: from files to a text, and every way in which they can be wrong."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

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
    ("t.jinja", b"{{ 'x' * 10**11 }}", "the chat template is stopped: it needs more memory than a template may take",
     "use a template that comes to an end"),
    ("r.json", b"[]", "the request must be a JSON object", "correct the file"),
    ("r.json", b"{}", "the request holds no messages", 'give it as {"messages": [{"role": "user", "content": "…"}]}'),
    ("r.json", b"[" * 100_000, "the request is nested too deeply", "flatten it"),
    ("r.json", b'{"messages": ' + b"1" * 5_000 + b"}", "the request is no JSON: it is no UTF-8 or holds a number too long",
     "correct the file"),
    ("s.json", b"5", "the special tokens must be a JSON object", "correct the file"),
]  # fmt: skip


@pytest.mark.parametrize("name, raw, what, mend", WRONG)
def test_a_wrong_file_is_told_with_its_name(
    folder: Path, name: str, raw: bytes, what: str, mend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).write_bytes(raw)
    words = ["--template", folder / "t.jinja", "--request", folder / "r.json", "--special-tokens", folder / "s.json"]
    assert render(*words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"lockllm: {what}\n  in    {folder / name}\n  mend  {mend}\n"


def test_what_is_missing_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = ["--template", folder / "t.jinja"]
    for words, what in (
        ([], "no template is named"),
        ([folder / "none"], "there is no such checkpoint folder"),
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


def test_a_terminal_is_given_nothing_to_obey() -> None:
    assert shown("a\x1b[31m\n\t\u202eb\x9bé", terminal=True) == "a\\x1b[31m\n\t\\u202eb\\x9bé"
    assert shown("a\x1b[31m", terminal=False) == "a\x1b[31m"
