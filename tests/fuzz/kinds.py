"""Every kind of input that is fuzzed, and the tests that take one case of it."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import hypothesis

from tests.abuse import test_fuzz_documents as documents
from tests.abuse import test_fuzz_engines as engines
from tests.abuse import test_fuzz_files as files
from tests.abuse import test_fuzz_servers as servers
from tests.fuzz import templates
from tests.fuzz.binary import TARGETS, Target

Case = Callable[[], None]
Watch = Callable[[Callable[..., Any]], Callable[..., Any]]


class Folder:
    """What the tests ask pytest for: one folder, the same for every case."""

    def __init__(self) -> None:
        self.path = Path(
            tempfile.mkdtemp(prefix="lockllm-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        )

    def getbasetemp(self) -> Path:
        return self.path


TESTS: dict[str, list[Any]] = {
    "spec": [documents.test_any_spec_is_read_or_refused],
    "lock": [documents.test_any_lock_is_read_or_refused_and_then_judged, documents.test_any_bytes_are_refused_in_words],
    "observation": [documents.test_any_observation_is_read_or_refused_and_then_judged],
    "safetensors": [files.test_any_safetensors_header_is_read_or_refused],
    "gguf": [files.test_any_gguf_is_read_or_refused],
    "configuration": [files.test_any_configuration_gives_facts_findings_or_gaps],
    "argv": [engines.test_any_command_is_read_or_refused, engines.test_rules_hold_over_any_facts],
    "environ": [engines.test_any_process_is_read],
    "http": [
        engines.test_any_answer_is_read_or_left_out,
        engines.test_any_answer_to_the_fixed_conversations_is_read_or_left_out,
        servers.test_any_bytes_of_a_server_are_an_answer_or_a_reason,
    ],
    "log": [engines.test_any_log_is_read_or_left_out],
    "template": [files.test_any_template_is_rendered_or_refused],
}
"""Properties over structured input, by Hypothesis."""
BYTES = {
    **{f"{name}-bytes": target for name, target in TARGETS.items()},
    "template-forked": Target(templates.run, templates.spoil, templates.starts()),
}
"""Readers over what is spoiled with the format in mind, without Hypothesis: many more cases a second."""
NAMES = (*TESTS, *BYTES)


def rounds(kind: str, seed: int, watch: Watch) -> Iterator[Callable[[], None]]:
    """Rounds of cases of a kind without end, each the same for the same seed; every case runs under the watch."""
    if kind not in TESTS:
        yield from (_spoiled(BYTES[kind], random.Random(f"{seed}-{each}"), watch) for each in count())
        return
    folder = Folder()
    for test in TESTS[kind]:
        test.hypothesis.inner_test = watch(test.hypothesis.inner_test)
    for each in count():
        for test in TESTS[kind]:
            seeded = hypothesis.seed(seed * 1_000_003 + each)(test)
            asked = seeded.__code__.co_varnames[: seeded.__code__.co_argcount + seeded.__code__.co_kwonlyargcount]
            given: dict[str, Any] = {"tmp_path_factory": folder} if "tmp_path_factory" in asked else {}
            for name in engines.available() if "name" in asked else (None,):
                yield lambda seeded=seeded, given=given, name=name: seeded(**given, **({"name": name} if name else {}))  # type: ignore[misc]


def _spoiled(target: Target, chance: random.Random, watch: Watch) -> Callable[[], None]:
    run = watch(target.run)

    def one() -> None:
        held = [*target.corpus]
        for _ in range(500):
            raw = target.spoil(chance.choice(held), chance)
            try:
                run(raw)
            except BaseException:
                print(f"the case: {raw!r}")
                raise
            if chance.random() < 0.1:
                held.append(raw)  # what was spoiled is spoiled again

    return one
