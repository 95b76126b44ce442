"""`llm.lock.example`: what `lock` writes for a real-looking server, from a spec and two observations that are checked in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lockllm.documents import lock as locks
from lockllm.documents import observation as observations
from lockllm.documents import spec as specs
from lockllm.documents.spec import Spec
from lockllm.engines import Given
from lockllm.facts.observation import Observation
from lockllm.judge.verify import verify
from lockllm.resolve import Asked, Options, Place, resolve
from lockllm.resolve.remote.releases import Release
from tests.conftest import ROOT

DATA = ROOT / "tests" / "data" / "example"
PIN = ("kernels.*", "engine.image", "engine.image_digest", "serve.attention_backend", "env.*")


def observed(name: str) -> Observation:
    return observations.read((DATA / name).read_bytes(), name)


class Hub:
    """A laptop without the engine, for which the Hub lists a checkpoint."""

    is_serving_host = False

    def installed(self, engine: str) -> str | None:
        return None

    def options(self, engine: str, version: str) -> None:
        return None

    def newest(self, engine: str, inside: Callable[[str], bool]) -> Release | None:
        raise AssertionError("the host tells the version")

    def requirements(self, release: Release) -> dict[str, str]:
        return {}

    def place(self, spec: Spec, commit: str | None, version: str) -> Place:
        return Place(path="/nowhere", commit=commit or "3f1c" * 10, commit_via="" if commit else "Hub: main")

    def commit(self, asked: Asked) -> tuple[str, str]:
        raise AssertionError("all is in one repository")

    def look(self, spec: Spec, place: Place, version: str, given: Given) -> Observation:
        return observed("checkpoint.json")


def resolved(old: locks.Lock | None = None) -> locks.Lock:
    spec = specs.read((DATA / "llm.toml").read_text())
    filled = resolve(spec, old, Hub(), Options(pin=PIN), observed("host.json"))
    assert filled.disagreements == ()
    return filled.lock


def test_the_example_is_byte_for_byte_what_is_written(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "llm.lock.example", locks.write(resolved()))


def test_the_example_stays_when_it_is_locked_again() -> None:
    text = (ROOT / "llm.lock.example").read_text()
    assert locks.write(locks.read(text)) == text
    assert locks.write(resolved(locks.read(text))) == text


def test_the_example_verifies_on_the_host_that_it_was_made_for() -> None:
    report = verify(locks.read((ROOT / "llm.lock.example").read_text()), observed("host.json"))
    assert report.counts["mismatch"] == 0
    assert {result.fact.group for result in report.results if result.blocking} == {
        "checkpoint", "tokenizer", "chat_template", "quantization", "serve", "sampling", "prompt_probes",
    }  # fmt: skip
