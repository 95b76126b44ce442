"""Reports and diffs made by hand: what the outputs are looked at and tested with."""

from __future__ import annotations

import hashlib
from typing import Any

from lockllm.facts import registry
from lockllm.facts.fact import Path, Policy, Stage
from lockllm.facts.observation import By, Check, CheckStatus, Reading
from lockllm.judge.report import Change, Diff, Fingerprints, Report, Result, Status

MISMATCH, UNKNOWN, MATCH = Status.MISMATCH, Status.UNKNOWN, Status.MATCH
FOLDER = "/srv/models/Qwen2.5-7B-Instruct"
TEMPLATE_FILE = 'checkpoint.files."chat_template.jinja"'


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def file(text: str, size: int) -> dict[str, Any]:
    return {"size": size, "sha256": digest(text)}


def at(key: str | Path) -> Path:
    return registry.keys.parse(key) if isinstance(key, str) else key


def result(
    key: str | Path, status: Status, expected: Any = None, found: Any = None, source: str = "", *, by: By = By.FILE,
    seen: bool = True, fix: str | None = None, evidence: str = "computed", **more: Any,
) -> Result:  # fmt: skip
    row = registry.find(at(key))
    readings = (Reading(row, registry.read(row, found), source, by, evidence),) if seen else ()
    return Result(
        **{
            "fact": row, "status": status, "policy": row.policy, "expected": expected, "found": found, "seen": seen,
            "readings": readings, "source": source, "fix": row.fix if fix is None else fix,
            "blocking": status in (MISMATCH, UNKNOWN), **more,
        }
    )  # fmt: skip


def report(results: list[Result], status: str = "mismatch", **more: Any) -> Report:
    counts = {each.value: sum(1 for one in results if one.status is each) for each in Status}
    return Report(
        **{
            "status": status, "exit_code": {"match": 0, "mismatch": 1, "unknown": 3}[status], "stage": Stage.ALL,
            "lock": "llm.lock", "host": "gpu-01", "engine": "vllm 0.10.2", "counts": {**counts, "pinned": len(results), "unpinned": 2},
            "fingerprint": Fingerprints("1-w3f2a-t9c1b-e77aa", "1-w3f2a-t1111-e77aa"), "results": tuple(results),
            "unpinned": {
                "kernels.attention": "only the start log shows it",
                "engine.image": "seen from outside the container only"
            },
            "subject": "server at http://127.0.0.1:8000 (pid 71)", **more,
        }
    )  # fmt: skip


def change(key: str | Path, before: Any, after: Any, because: str | None = None, **more: Any) -> Change:
    row = registry.find(at(key))
    word = "added" if before is None else "removed" if after is None else "changed"
    return Change(**{"fact": row, "before": before, "after": after, "change": word, "kind": row.kind,
                     "effect": row.effect, "because": because, **more})  # fmt: skip


MATCHING = [
    result("checkpoint.dtype", MATCH, "bfloat16", "bfloat16", "follows from checkpoint.files", seen=False),
    result("engine.version", MATCH, "0.10.2", "0.10.2", "GET /version", by=By.ENDPOINT),
    result("serve.dtype", MATCH, "bfloat16", "bfloat16", "pid 71 argument --dtype", by=By.PROCESS),
    result("host.gpu_count", MATCH, 2, 2, "NVML"),
    result(("checkpoint", "files", "config.json"), MATCH, file("c", 663), file("c", 663), f"{FOLDER}/config.json"),
    result(("checkpoint", "files", "a.safetensors"), MATCH, file("a", 10**9), file("a", 10**9),
           f"{FOLDER}/a.safetensors", evidence="cached"),
]  # fmt: skip
CHECKS = (
    Check("check.files_complete", CheckStatus.PASS, "4 of 4 shards are there", "model.safetensors.index.json"),
    Check("check.bos_once", CheckStatus.UNKNOWN, "the checkpoint has no tokenizer"),
)
REPULLED = [
    result("checkpoint.content_sha256", MISMATCH, digest("a1"), digest("b1"), FOLDER, because=TEMPLATE_FILE),
    result("chat_template.sha256", MISMATCH, digest("a"), digest("b"), f"{FOLDER}/chat_template.jinja",
           because=TEMPLATE_FILE),
    result("serve.max_model_len", MISMATCH, 32768, 8192, "pid 71 argument --max-model-len", by=By.PROCESS),
    result(("checkpoint", "files", "chat_template.jinja"), MISMATCH, file("a", 2509), file("b", 2611),
           f"{FOLDER}/chat_template.jinja"),
    *(
        result(("prompt_probes", probe, "text"), MISMATCH, digest(probe), digest(f"{probe}2"), "rendered here",
               because="chat_template.sha256")
        for probe in ("plain", "tools", "system")
    ),
    result(("prompt_probes", "tools", "token_count"), MISMATCH, 107, 121, "rendered here",
           because="chat_template.sha256"),
]  # fmt: skip
GPU = [
    result("host.driver", Status.ALLOWED, "550.54.14", "550.90.07", "NVML", reason="inside >=550.54.14",
           blocking=False),
    result("host.gpu", MISMATCH, "NVIDIA H100 80GB HBM3", ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"], "NVML"),
    result("host.gpu_product", MISMATCH, "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVML", because="host.gpu",
           blocking=False, policy=Policy.REPORT),
    result("host.compute_capability", MISMATCH, "9.0", "8.0", "NVML", because="host.gpu"),
    result("host.gpu_memory", Status.WAIVED, "80 GiB", "79 GiB", "NVML", reason="two spare nodes have the PCIe card",
           blocking=False),
    result("host.python", MISMATCH, "3.11.9", "3.12.3", "pid 71", blocking=False, policy=Policy.REPORT),
    result("kernels.attention", Status.NOT_DUE, "FLASH_ATTN", seen=False, reason="only the start log shows it",
           blocking=False),
    result(("env", "VLLM_USE_V1"), Status.IGNORED, "1", None, "pid 71 environment", blocking=False,
           policy=Policy.IGNORE),
]  # fmt: skip
UNSEEN = [
    *(
        result(key, UNKNOWN, "x", seen=False, reason="the NVML library is not found",
               fix="run with --gpus all, or mount libnvidia-ml.so.1")
        for key in ("host.driver", "host.gpu", "host.gpu_memory")
    ),
    result("sampling.temperature", UNKNOWN, 0.7, seen=False, reason="GET /get_model_info answered 404",
           fix="upgrade the server, or leave it out of the lock"),
]  # fmt: skip
FILES = [
    result(
        ("checkpoint", "files", f"model-{number:05}-of-00200.safetensors"), MISMATCH, file(f"a{number}", 4976698672),
        file(f"b{number}", 4976698672) if number % 50 else None, f"{FOLDER}/model-{number:05}-of-00200.safetensors",
    )
    for number in range(1, 201)
]  # fmt: skip
LONG = [
    result("serve.chat_template_kwargs", MISMATCH, {"thinking": True, "note": "x" * 90, "level": 1},
           {"thinking": True, "note": "x" * 90, "level": 2}, "pid 71 argument --chat-template-kwargs"),
    result("sampling.stop_token_ids", MISMATCH, list(range(151600, 151660)), [*range(151600, 151650), 7],
           "generation_config.json"),
    result("serve.rope_scaling", MISMATCH, "a" * 100 + "linear" + "b" * 100, "a" * 100 + "yarn" + "b" * 100,
           "config.json"),
    result("cuda.runtime", MISMATCH, "12.8", 12.8, "libcudart.so.12", by=By.LIBRARY),
    result(("packages", "torch"), MISMATCH, "2.8.0+cu128", "2.8.0+cu126", "torch-2.8.0+cu126.dist-info"),
    result(("packages", "flash-attn"), MISMATCH, None, "2.7.4", "flash_attn-2.7.4.dist-info"),
]  # fmt: skip
DISAGREE = Check(
    "check.witnesses_agree", CheckStatus.FAIL,
    "engine.version: GET /version says 0.10.2, vllm-0.10.3.dist-info says 0.10.3",
    "GET /version, vllm-0.10.3.dist-info", "restart the server, or install vllm 0.10.2 again",
)  # fmt: skip
REPORTS = {
    "match": report(MATCHING, "match", checks=CHECKS, fingerprint=Fingerprints("1-w3f2a-t9c1b", "1-w3f2a-t9c1b")),
    "template": report(MATCHING + REPULLED, checks=CHECKS),
    "files": report(MATCHING + FILES, checks=CHECKS),
    "unknown": report(MATCHING + UNSEEN, "unknown", checks=CHECKS),
    "gpu": report(MATCHING + GPU, checks=(*CHECKS, DISAGREE), gate="warn", exit_code=0,
                  others=("B.lock: 3 mismatches",),
                  warnings=('policy "packages.foo" matches no locked fact',)),
    "long": report(MATCHING + LONG),
    "nothing": report(
        [result("kernels.attention", Status.NOT_DUE, "FLASH_ATTN", seen=False, blocking=False)], "unknown",
        stage=Stage.PREFLIGHT, subject="this host, before a server runs",
    ),
    "finding": report(MATCHING, checks=(*CHECKS, DISAGREE)),
}  # fmt: skip

BEFORE_TEXT = (
    "{% for m in messages %}\n<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\n"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}\n"
)
AFTER_TEXT = BEFORE_TEXT.replace("{{ m.content }}", "{{ m.content | trim }}").replace(
    "assistant\n", "assistant\n<think>\n"
)
DIFFS = {
    "none": Diff(before="HEAD:llm.lock", after="llm.lock", verdict="nothing", changes=()),
    "upgrade": Diff(
        before="HEAD~1:llm.lock", after="llm.lock", verdict="step",
        changes=(
            change("engine.version", "0.10.1", "0.10.2"),
            change("serve.max_num_seqs", 256, 1024, "engine.version"),
            change("serve.dtype", "bfloat16", "float16"),
            change("sampling.top_k", 0, 20, "engine.version"),
            change(("packages", "torch"), "2.7.1+cu128", "2.8.0+cu128", "engine.version"),
            change(("packages", "xformers"), "0.0.31", None, "engine.version"),
        ),
        warnings=("llm.lock: this release does not know serve.zzz; it is compared by plain equality",),
    ),
    "template": Diff(
        before="main:llm.lock", after="llm.lock", verdict="step", template_before=BEFORE_TEXT,
        template_after=AFTER_TEXT, changes=(
            change("checkpoint.commit", "b3a67e0f9b6f8e2ef411068c6c9e7e2ef9fc3a67",
                   "11c0ffee9b6f8e2ef411068c6c9e7e2ef9fc3a67", TEMPLATE_FILE),
            change("chat_template.sha256", digest("a"), digest("b"), TEMPLATE_FILE),
            change("serve.dtype", "bfloat16", "float16"),
            change(("checkpoint", "files", "chat_template.jinja"), file("a", 2509), file("b", 2611)),
            change(("checkpoint", "files", "b.safetensors"), file("x", 9), file("x", 9), change="moved",
                   moved_from='checkpoint.files."a.safetensors"', effect="the file has another name"),
            change(("checkpoint", "files", "c.json"), None, file("c", 9)),
            change(("checkpoint", "files", "d.json"), file("d", 9), None),
            change(("checkpoint", "files", "e.json"), file("e", 9), file("f", 9)),
            change(("prompt_probes", "tools", "text"), digest("1"), digest("2"), TEMPLATE_FILE),
            change(("prompt_probes", "tools", "token_count"), 107, 109, TEMPLATE_FILE),
        ),
    ),
}  # fmt: skip
INSPECTED = [
    registry.seen("checkpoint.dtype", "bfloat16", "config.json: torch_dtype", By.FILE),
    registry.seen("checkpoint.rope_theta", 1000000.0, "config.json: rope_theta", By.FILE),
    registry.seen("quantization.method", "none", "config.json", By.FILE),
    registry.seen("chat_template.sha256", digest("t"), "chat_template.jinja", By.FILE),
    registry.seen("checkpoint.sliding_window", None, "config.json", By.FILE),
    registry.seen(("checkpoint", "files", "config.json"), file("c", 663), "config.json", By.FILE),
]
