"""Real servers asked for their prompts beside all else: what they answer, and what the files at hand say of it."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm.engines import Answer, Probe
from lockllm.facts.fact import Stage
from lockllm.facts.observation import By, Check, CheckStatus, Observation, Reading, Unobserved
from lockllm.observe import Request, observe
from lockllm.observe.server import prompts
from lockllm.observe.server.endpoints import Replies
from lockllm.observe.web.http import parse
from lockllm.prompt import live, probes
from lockllm.prompt.readings import Setup
from lockllm.prompt.readings import observe as look
from lockllm.prompt.render import Rendered, renderings
from lockllm.prompt.tokenizer import token_ids
from tests.conftest import TINY
from tests.servers import start

CLOCK = "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }}{% endfor %} on {{ strftime_now('%d %b %Y') }}"


def said(seen: Observation, by: By) -> dict[str, Any]:
    """The probes as one kind of witness tells them."""
    return {
        each.fact.key: each.value for each in seen.readings if each.fact.path[0] == "prompt_probes" and each.by is by
    }


def check(seen: Observation, name: str = "check.prompt_as_served") -> Check | None:
    return next((each for each in seen.checks if each.name == name), None)


def remade(home: Path, template: str) -> Path:
    (home / "t.jinja").write_text(template)
    subprocess.run(
        [sys.executable, TINY / "make.py", "--out", home, "--template", home / "t.jinja"], check=True, timeout=60
    )
    return home / "tiny.gguf"


def test_llama_cpp_shows_its_prompts_by_their_text(llama_home: Path, tiny_gguf: Path) -> None:
    with start.llama_server(llama_home, "-m", str(tiny_gguf), "-c", "256") as server:
        seen = observe(Request(server=server.url, gpu="none"))
        brief = observe(Request(server=server.url, gpu="none", stage=Stage.LIVE, quick=True))
    told = said(seen, By.ENDPOINT)
    assert set(told) == {f"prompt_probes.{name}.text" for name in live.requests("llama.cpp")} | {
        "prompt_probes.version"
    }
    found = check(seen)
    assert found is not None
    assert (found.status, found.source) == (CheckStatus.PASS, "POST /apply-template")
    assert said(brief, By.ENDPOINT) == told


def test_a_template_that_reads_the_clock_is_compared_with_today(llama_home: Path, tmp_path: Path) -> None:
    model = remade(tmp_path, CLOCK)
    with start.llama_server(llama_home, "-m", str(model), "-c", "256") as server:
        seen = observe(Request(server=server.url, gpu="none"))
    assert said(seen, By.ENDPOINT) == {}
    found = check(seen)
    assert found is not None
    assert (found.status, found.detail) == (
        CheckStatus.PASS,
        "the server's prompts are those that its template gives today: 7 compared",
    )


class Vllm:
    """vLLM's answers for a checkpoint, as its own renderer and tokenizer give them at a moment."""

    def __init__(self, template: str, moment: dt.datetime) -> None:
        self.template, self.moment = template, moment

    def served(self, now: dt.datetime) -> live.Served:
        asked = live.requests("vllm")
        bodies = [probes.as_served(probes.PROBES[name].request, "vllm", "string") for name in asked]
        texts = [each.text for each in renderings(self.template, bodies, {}, self.moment) if isinstance(each, Rendered)]
        counted = token_ids(str(TINY / "model" / "tokenizer.json"), texts)
        assert not isinstance(counted, Unobserved)
        answers = {
            name: Answer(
                probe=asked[name], status=200, headers={}, text="", json={"tokens": list(ids), "count": len(ids)}
            )
            for name, ids in zip(asked, counted.ids, strict=True)
        }
        return live.Served(engine="vllm", answers=answers, began=now, ended=now)


def looked(template: str, served: live.Served, **more: Any) -> tuple[Check | None, dict[str, Any]]:
    files = {"chat_template.jinja": template}
    setup = Setup(engine="vllm", served=served, **more)
    path = str(TINY / "model" / "tokenizer.json")
    found = look(lambda name: files[name].encode() if name in files else None, list(files), setup, tokenizer_json=path)
    seen = Observation(readings=found.readings, checks=found.checks)
    return check(seen), said(seen, By.ENDPOINT)


@pytest.mark.parametrize("clock", ["", "{% set day = strftime_now('%d') if messages|length > 9 %}"], ids=["", "clock"])
def test_what_is_stopped_here_is_not_told_to_be_as_served(clock: str) -> None:
    template = clock + "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }}{% endfor %}"
    endless = "{% if messages|length > 4 %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}"
    served = Vllm(template, NOON).served(NOON.replace(tzinfo=dt.timezone.utc))
    found, _ = looked(endless + template, served)
    assert found is not None
    assert found.status is CheckStatus.UNKNOWN
    assert "it needs too much processor time" in found.detail


NOON = dt.datetime(2026, 3, 5, 12, 0, 0)  # noqa: DTZ001 - as a template is told it


@pytest.mark.parametrize("days, status", [(0, CheckStatus.PASS), (1, CheckStatus.FAIL)])
def test_ids_of_a_template_with_a_clock_are_those_of_today(days: int, status: CheckStatus) -> None:
    now = NOON.replace(tzinfo=dt.timezone.utc) + dt.timedelta(days=days)
    found, told = looked(CLOCK, Vllm(CLOCK, NOON).served(now))
    assert found is not None
    assert (found.status, told) == (status, {})


def test_the_locked_template_may_read_the_clock_where_the_one_on_disk_does_not() -> None:
    plain = CLOCK.partition(" on ")[0]
    now = NOON.replace(tzinfo=dt.timezone.utc)
    _, told = looked(plain, Vllm(CLOCK, NOON).served(now), clock=True)
    assert told == {}


def test_another_template_in_the_server_than_on_disk_is_a_finding() -> None:
    plain = CLOCK.partition(" on ")[0]
    now = NOON.replace(tzinfo=dt.timezone.utc)
    same, told = looked(plain, Vllm(plain, NOON).served(now))
    assert same is not None
    assert same.status is CheckStatus.PASS
    assert len(told) == 2 * len(live.requests("vllm")) + 1
    other, _ = looked(plain, Vllm(plain.replace("<", "[["), NOON).served(now))
    assert other is not None
    assert other.status is CheckStatus.FAIL
    brief, held = looked(plain, Vllm(plain, NOON).served(now), brief=True)
    assert (brief, held) == (None, told)


def served_alone(answers: Mapping[str, Answer], shown: tuple[Answer, ...], **more: Any) -> list[Reading | Unobserved]:
    now = dt.datetime.now(dt.timezone.utc)
    served = live.Served(engine="llama.cpp", answers=answers, began=now, ended=now)
    there = Replies(address=parse("http://127.0.0.1:1"), answers=shown, prompts=served)
    return list(prompts.served(there, Request(**more)))


@pytest.mark.parametrize(
    "template, clock, seen",
    [
        ("{{ messages }}", None, True),
        (CLOCK, None, False),
        (None, None, False),
        (None, False, True),
        (None, True, False),
    ],
)
def test_without_files_the_server_or_the_lock_must_say_that_no_clock_is_read(
    template: str | None, clock: bool | None, seen: bool
) -> None:
    answer = Answer(
        probe=Probe(path="/apply-template", method="POST"), status=200, headers={}, text="", json={"prompt": "x"}
    )
    props = Answer(probe=Probe(path="/props"), status=200, headers={}, text="", json={"chat_template": template})
    kept: list[str] = []
    found = served_alone({"user": answer}, (props,), clock=clock, keep_template=kept.append)
    assert any(isinstance(each, Reading) for each in found) is seen
    assert kept == ([template] if template else [])


@pytest.mark.vllm
def test_vllm_renders_and_tokenizes_every_probe_as_we_do(vllm_venv: Path, tiny: Path) -> None:
    with start.vllm_serve(tiny, "--max-model-len", "1024", venv=vllm_venv) as server:
        seen = observe(Request(server=server.url, gpu="none"))
        shown = {
            name: server.get("/tokenize", json.loads(json.dumps(dict(probe.request))))["tokens"]
            for name, probe in probes.PROBES.items()
        }
    told, ours = said(seen, By.ENDPOINT), said(seen, By.FILE)
    assert {key.split(".")[1] for key in told} == {*live.requests("vllm"), "version"}
    assert {key: value for key, value in told.items() if ours[key] != value} == {}
    found = check(seen)
    assert found is not None
    assert found.status is CheckStatus.PASS
    differ = [
        name for name, ids in shown.items() if probes.token_ids_sha256(ids) != ours[f"prompt_probes.{name}.token_ids"]
    ]
    assert differ == []


def planned(folder: Path, *words: str) -> Observation:
    return observe(
        Request(command=("vllm", "serve", "model", *words), cwd=str(folder), environ={"PATH": "/bin"}, gpu="none")
    )


def test_a_tokenizer_of_its_own_brings_the_template(tiny: Path) -> None:
    folder = tiny.parent
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_bytes((tiny / "tokenizer.json").read_bytes())
    (tokenizer / "tokenizer_config.json").write_text(json.dumps({"chat_template": "other"}))
    found = {each.fact.key: each.value for each in planned(folder, "--tokenizer", "tokenizer").readings}
    assert found["chat_template.source"] == "tokenizer_config.json"
    assert found["prompt_probes.user.token_count"] > 0
    without = planned(folder, "--tokenizer", "/none")
    assert not any(each.fact.path[0] in ("chat_template", "prompt_probes") for each in without.readings)
    gaps = {each.path[0]: each.reason for each in without.unobserved}
    assert gaps["prompt_probes"] == gaps["chat_template"] != ""
