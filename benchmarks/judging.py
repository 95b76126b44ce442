"""Judging: locks of 10,000 files, and a fleet's observations in one process."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.side_by_side import Row, medians

if TYPE_CHECKING:
    from lockllm.documents.lock import Lock
    from lockllm.facts.observation import Observation

FILES = 10_000
HOSTS = 1_000
LOCKLLM = str(Path(sys.executable).parent / "lockllm")


def rows() -> Iterator[Row]:
    """`diff` of two locks of 10,000 files over its start; 1,000 observations through the API: in processor time."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, digit in (("a.lock", "0"), ("b.lock", "1")):
            lines = "".join(
                f'"model-{number:05}.bin" = {{ size = 4096, sha256 = "{digit * 64}" }}\n' for number in range(FILES)
            )
            (folder / name).write_text(f'lock_version = 1\n\n[engine]\nname = "vllm"\n\n[checkpoint.files]\n{lines}')
        found = medians(
            {"diff": [LOCKLLM, "diff", "a.lock", "b.lock"], "start": [LOCKLLM, "diff", "--help"]}, folder, rounds=7
        )
        over = found["diff"].cpu - found["start"].cpu
        yield Row("diff of two 10,000-file locks over its start, CPU / 500", over, 500, 1.0)
    yield from _fleet()


def _fleet() -> Iterator[Row]:
    from lockllm.documents import lock as locks
    from lockllm.documents import observation as observations
    from lockllm.judge.verify import verify

    example = (Path(__file__).parent.parent / "llm.lock.example").read_text()
    for lock in (locks.read(_usual()), locks.read(example)):
        facts = {key: [{"value": value, "source": "seen", "by": "process"}] for key, value in _values(lock).items()}
        raw = json.dumps({"observation_version": 1, "observed_at": "2026-01-01T00:00:00Z", "facts": facts}).encode()
        read = [observations.read(raw) for _ in range(HOSTS)]
        assert verify(lock, read[0]).exit_code == 0

        def judged(lock: Lock = lock, read: list[Observation] = read) -> None:
            for each in read:
                verify(lock, each)

        def read_and_judged(lock: Lock = lock, raw: bytes = raw) -> None:
            for _ in range(HOSTS):
                verify(lock, observations.read(raw))

        held = len(lock.values)
        yield Row(f"1,000 verdicts on {held} facts, CPU / 500", _median(judged), 500, 1.0)
        yield Row("the same, each observation read from JSON, CPU / 500", _median(read_and_judged), 500, 1.0)


def _values(lock: Any) -> dict[str, Any]:
    from lockllm.facts import keys, registry

    return {
        **{keys.dotted(path): registry.dump(registry.find(path), value) for path, value in lock.values.items()},
        **{keys.dotted(path): None for path in lock.absent},
    }


def _usual() -> str:
    files = "".join(
        f'"model-{number:05}.safetensors" = {{ size = 4096, sha256 = "{"0" * 64}" }}\n' for number in range(12)
    )
    packages = "".join(f'"package-{number}" = "1.2.{number}"\n' for number in range(12))
    return f"""lock_version = 1

[checkpoint]
repo = "org/model"
commit = "{"0" * 40}"
dtype = "bfloat16"
architecture = "LlamaForCausalLM"
max_position_embeddings = 8192

[chat_template]
sha256 = "{"1" * 64}"

[quantization]
method = "none"

[engine]
name = "vllm"
version = "0.10.2"

[packages]
{packages}
[cuda]
runtime = "12.8"

[host]
driver = "550.54.14"
gpu = "NVIDIA H100 80GB HBM3"
gpu_count = 2

[serve]
dtype = "bfloat16"
tensor_parallel_size = 2
max_model_len = 8192
max_num_seqs = 256
enable_prefix_caching = true
seed = 0

[sampling]
temperature = 0.0
top_p = 1.0
top_k = 0

[checkpoint.files]
{files}"""


def _median(call: Callable[[], object]) -> float:
    took = []
    for _ in range(5):
        start = time.process_time()
        call()
        took.append((time.process_time() - start) * 1000)
    return statistics.median(took)
