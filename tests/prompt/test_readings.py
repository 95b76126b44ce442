"""The facts and findings of the prompt, from a checkpoint's files to readings."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lockllm.facts.observation import ABSENT, CheckStatus, Unobserved
from lockllm.observe.python import interpreter
from lockllm.prompt import probes
from lockllm.prompt.readings import Prompt, Setup, observe
from lockllm.prompt.sandbox import Program
from lockllm.prompt.templates import Candidate
from lockllm.prompt.tokenizer import Encoded, token_ids

TEMPLATES = Path(__file__).parent / "data" / "templates"
SIMPLE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


def look(files: dict[str, str], setup: Setup | None = None, **rest: Any) -> Prompt:
    return observe(lambda name: files[name].encode() if name in files else None, sorted(files), setup, **rest)


def values(found: Prompt) -> dict[str, Any]:
    return {reading.fact.key: reading.value for reading in found.readings}


def status(found: Prompt, name: str) -> CheckStatus | None:
    return next((check.status for check in found.checks if check.name == name), None)


def test_version_1_of_the_probes_never_changes() -> None:
    held = {name: probe.request for name, probe in probes.PROBES.items()}
    text = json.dumps(held, sort_keys=True)
    assert probes.VERSION == 1
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "c07d6e44295474269efb9e98b83abad8b6370f6c3425fc90eb146524dff240dd"
    )
    assert probes.NOW.isoformat() == "2026-01-01T12:00:00"


def test_every_probe_of_a_plain_template_is_rendered() -> None:
    found = values(look({"chat_template.jinja": SIMPLE}))
    assert found["chat_template.sha256"] == hashlib.sha256(SIMPLE.encode()).hexdigest()
    assert found["chat_template.source"] == "chat_template.jinja"
    assert found["prompt_probes.version"] == 1
    assert found["prompt_probes.user.text"] == hashlib.sha256(b"<user>Name three primes.").hexdigest()
    assert {f"prompt_probes.{name}.text" for name in probes.PROBES} <= set(found)


@pytest.mark.parametrize(
    "name", ["chat_template.jinja", "processor_config.json", "additional_chat_templates/default.jinja"]
)
def test_a_template_that_cannot_be_read_is_unknown_and_no_other_takes_its_place(name: str) -> None:
    files, setup = {"tokenizer_config.json": json.dumps({"chat_template": SIMPLE})}, Setup(engine="vllm")
    found = observe(lambda each: files[each].encode() if each in files else None, sorted({*files, name}), setup)
    assert not any(reading.fact.path[0] in ("chat_template", "prompt_probes") for reading in found.readings)
    (gap,) = [each for each in found.unobserved if each.path == ("chat_template",)]
    assert gap.reason.startswith(f"{name} ")
    alone = observe(lambda _: None, (name,), setup)
    assert not any(reading.value is ABSENT for reading in alone.readings)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
def test_without_the_special_tokens_no_probe_is_rendered(name: str) -> None:
    template = "{{ bos_token }}" + SIMPLE
    found = look({"chat_template.jinja": template, name: "[]"})
    assert "prompt_probes.user.text" not in values(found)
    assert values(found)["chat_template.sha256"] == hashlib.sha256(template.encode()).hexdigest()
    gap = next(each for each in found.unobserved if each.path == ("prompt_probes", "user"))
    assert gap.reason.startswith(f"not rendered: {name} cannot be read")
    check = next(each for each in found.checks if each.name == "check.template_renders")
    assert gap.fix == check.fix == "put right what the reason names, and look again"


def test_a_broken_token_map_is_not_missed_where_the_tokenizer_ignores_it() -> None:
    config = json.dumps({"added_tokens_decoder": {}, "bos_token": "<s>"})
    files = {"chat_template.jinja": "{{ bos_token }}" + SIMPLE, "tokenizer_config.json": config}
    found = look({**files, "special_tokens_map.json": "[]"})
    assert values(found) == values(look(files))
    assert values(found)["prompt_probes.user.text"] == hashlib.sha256(b"<s><user>Name three primes.").hexdigest()


def test_a_probe_that_the_template_refuses_is_absent() -> None:
    template = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}" + SIMPLE
    found = look({"chat_template.jinja": template})
    reading = next(each for each in found.readings if each.fact.key == "prompt_probes.tools.text")
    assert reading.value is ABSENT
    assert "no tools" in reading.source


def test_no_template_is_seen_to_be_absent() -> None:
    found = look({"tokenizer_config.json": "{}"})
    assert values(found) == {"chat_template.sha256": ABSENT, "chat_template.source": ABSENT}
    assert found.checks == ()


def test_each_probe_sees_another_part_of_a_template() -> None:
    edits = {
        "tools": ("{{ tools|tojson if tools }}", {"tools", "tool_result"}),
        "the switch": ("{{ enable_thinking if enable_thinking is defined }}", {"thinking_off"}),
        "the generation prompt": ("{{ 'A' if not add_generation_prompt }}", {"finished"}),
        "reasoning": (
            "{% for m in messages %}{{ m.reasoning_content if m.reasoning_content }}{% endfor %}",
            {"reasoning"},
        ),
    }
    before = values(look({"chat_template.jinja": SIMPLE}))
    for name, (more, moved) in edits.items():
        after = values(look({"chat_template.jinja": SIMPLE + more}))
        changed = {key.split(".")[1] for key in before if key.endswith(".text") and before[key] != after[key]}
        assert changed == moved, name


def test_the_clock_is_a_fact_and_a_finding_and_moves_no_probe() -> None:
    found = look({"chat_template.jinja": (TEMPLATES / "granite-3.3.jinja").read_text()})
    assert values(found)["chat_template.context"] == ("clock", "available_tools", "controls", "thinking")
    assert status(found, "check.template_reads_clock") is CheckStatus.FAIL
    again = look({"chat_template.jinja": (TEMPLATES / "granite-3.3.jinja").read_text()})
    assert values(again) == values(found)
    assert status(look({"chat_template.jinja": SIMPLE}), "check.template_reads_clock") is CheckStatus.PASS


def test_a_date_that_llama_cpp_always_gives_is_its_clock() -> None:
    gguf = {
        "tokenizer.chat_template": "{% if not date_string is defined %}{% set date_string = 'x' %}{% endif %}" + SIMPLE
    }
    found = look({}, Setup(engine="llama.cpp", version="b11434"), gguf=gguf)
    assert values(found)["chat_template.context"] == ("clock", "date_string")
    assert [each.path for each in found.unobserved] == [("prompt_probes",)]


def test_content_reaches_a_template_as_the_engine_hands_it() -> None:
    parts = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}[{{ c.text }}]"
    template = parts + "{% endfor %}{% endif %}{% endfor %}"
    asked = {}
    for engine in ("vllm", "sglang", None):
        found = values(look({"chat_template.jinja": template}, Setup(engine=engine, version=None)))
        asked[engine] = found["prompt_probes.user.text"], found["prompt_probes.parts.text"]
        assert found.get("chat_template.content_format") == ("openai" if engine else None)

    def digest(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    assert asked["vllm"] == (digest("[Name three primes.]"), digest("[First.][Second.]"))
    assert asked["sglang"] == (digest("Name three primes."), digest("[First.][Second.]"))
    assert asked[None] == (digest("Name three primes."), digest("First. Second."))


def test_default_arguments_of_the_server_reach_the_probes() -> None:
    template = SIMPLE + "{{ effort }}{{ enable_thinking }}"
    plain = values(look({"chat_template.jinja": template}))
    given = values(
        look({"chat_template.jinja": template}, Setup(arguments={"effort": "high", "enable_thinking": True}))
    )
    assert plain["prompt_probes.user.text"] != given["prompt_probes.user.text"]
    assert plain["chat_template.sha256"] == given["chat_template.sha256"]


def test_templates_that_differ_and_templates_that_break_are_findings() -> None:
    found = look({"chat_template.jinja": SIMPLE, "tokenizer_config.json": '{"chat_template": "other"}'})
    assert status(found, "check.one_template") is CheckStatus.FAIL
    assert status(look({"chat_template.jinja": "{% if %}"}), "check.template_renders") is CheckStatus.FAIL
    twice = look(
        {"chat_template.jinja": "{{ bos_token }}{{ bos_token }}", "tokenizer_config.json": '{"bos_token": "<s>"}'}
    )
    assert status(twice, "check.bos_once") is CheckStatus.FAIL


def test_rules_that_were_not_read_leave_the_probes_out() -> None:
    found = look({"chat_template.jinja": SIMPLE}, Setup(engine="vllm", version="0.30.0", transformers="9.0.0"))
    assert "chat_template.sha256" in values(found)
    assert not any(key.startswith("prompt_probes") for key in values(found))
    assert "was not read" in found.unobserved[0].reason


def test_a_template_of_the_engine_itself_has_no_digest() -> None:
    found = look({}, Setup(engine="llama.cpp", version="b11434"), gguf={})
    assert values(found) == {"chat_template.source": "built-in: chatml"}
    flag = look({}, Setup(engine="vllm", explicit=Candidate(SIMPLE, "--chat-template")))
    assert values(flag)["chat_template.source"] == "--chat-template"


@pytest.fixture
def tokenizer_json(tmp_path: Path) -> str:
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.BPE(vocab={chr(code): code for code in range(256)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path / "tokenizer.json")


def test_token_ids_are_those_of_the_tokenizer_file(tokenizer_json: str) -> None:
    found = values(look({"chat_template.jinja": "{{ messages[0].content }}"}, tokenizer_json=tokenizer_json))
    ids = [ord(char) for char in "Name three primes." if char != " "]
    assert found["prompt_probes.user.token_count"] == len(ids)
    assert found["prompt_probes.user.token_ids"] == hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()


def test_token_ids_are_made_by_another_interpreter_where_it_is_named(tiny: Path) -> None:
    path, texts = str(tiny / "tokenizer.json"), ["Name three primes.", "\u6771\u4eac"]
    ours, theirs = token_ids(path, texts), token_ids(path, texts, program=Program(sys.executable))
    assert isinstance(ours, Encoded)
    assert ours == theirs
    gone = token_ids(path, texts, program=Program("/no/such/python"))
    assert isinstance(gone, Unobserved)
    assert gone.reason == "token ids were not made: no child process can be started: No such file or directory"
    odd = token_ids(path, texts, program=Program("/bin/true"))
    assert isinstance(odd, Unobserved)


def test_only_an_interpreter_that_may_be_run_is_used(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert interpreter.allowed(str(program)) == (str(program), interpreter.rights(program))
    program.chmod(0o777)
    assert interpreter.allowed(str(program)) is None
    assert interpreter.allowed(sys.executable) is None
    assert interpreter.allowed(None) is None


@pytest.mark.parametrize(
    "template",
    [
        SIMPLE + "{{ raise_exception }}",
        SIMPLE + "{{ messages|map('upper') }}",
        SIMPLE + "{{ cycler('a') }}",
        SIMPLE + "{{ messages[0].items }}",
        SIMPLE + "{{ lipsum() }}",
        SIMPLE + "{{ [1, 2]|random }}",
    ],
)
def test_a_text_that_is_another_at_every_rendering_is_told_as_chance_and_locked_as_no_text(template: str) -> None:
    found = look({"chat_template.jinja": template})
    assert "chance" in values(found)["chat_template.context"]
    assert values(found)["chat_template.sha256"] == hashlib.sha256(template.encode()).hexdigest()
    assert not [key for key in values(found) if key.startswith("prompt_probes.")]
    assert [each for each in found.unobserved if each.path == ("prompt_probes",) and "prints chance" in each.reason]
    before = look({"chat_template.jinja": template}, Setup(edition=1))
    assert "prompt_probes.user.text" in values(before)


def test_what_users_write_about_addresses_is_no_chance() -> None:
    found = look({"chat_template.jinja": SIMPLE + "<the door at 0x12> {{ [1]|length }}"})
    assert "chance" not in values(found)["chat_template.context"]
    assert "prompt_probes.user.text" in values(found)
