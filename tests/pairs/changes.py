"""What may happen to a host: changes that move its output, and restarts that move nothing. Drawn with a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tests.incidents.cases_engines import llama, sglang, transformers
from tests.incidents.cases_vllm import vllm
from tests.incidents.raw import Side

Change = tuple[str, Side]
"""What was done, in words, and the host after it."""

VLLM = (
    "--seed 3", "--dtype float16", "--max-model-len 512", "--max-num-seqs 17", "--max-num-batched-tokens 1024",
    "--enforce-eager", "--no-enable-prefix-caching", "--no-enable-chunked-prefill", "--kv-cache-dtype fp8",
    "--quantization fp8", "--generation-config vllm", "--override-generation-config {\"top_k\":7}",
    "--gpu-memory-utilization 0.5", "--attention-backend TRITON_ATTN", "--hf-overrides {\"rope_theta\":7}",
    "--tool-call-parser hermes", "--reasoning-parser qwen3", "--chat-template-content-format openai",
    "--middleware rewriting.Bodies", "--logits-processors words.Banned", "--block-size 32", "--load-format dummy",
    "--tokenizer-mode slow", "--trust-remote-code", "--skip-tokenizer-init", "--cpu-offload-gb 2",
    "--speculative-config {\"method\":\"ngram\",\"num_speculative_tokens\":3,\"prompt_lookup_max\":4}",
    "--compilation-config {\"level\":0}", "--disable-sliding-window", "--logprobs-mode processed_logprobs",
    "--max-logprobs 5", "--chat-template {home}/other.jinja", "--limit-mm-per-prompt {\"image\":2}",
)  # fmt: skip
SGLANG = (
    "--random-seed 3", "--dtype float16", "--context-length 512", "--max-running-requests 17", "--chunked-prefill-size 64",
    "--disable-radix-cache", "--kv-cache-dtype fp8_e5m2", "--quantization fp8", "--sampling-defaults openai",
    "--mem-fraction-static 0.5", "--attention-backend triton", "--sampling-backend pytorch", "--disable-cuda-graph",
    "--enable-deterministic-inference", "--tool-call-parser qwen25", "--reasoning-parser qwen3",
    "--schedule-policy lpm", "--page-size 16", "--enable-torch-compile", "--triton-attention-reduce-in-fp32",
    "--enable-mixed-chunk", "--disable-overlap-schedule", "--grammar-backend outlines", "--chat-template {home}/other.jinja",
    "--json-model-override-args {\"rope_theta\":7}", "--skip-tokenizer-init", "--trust-remote-code",
)  # fmt: skip
LLAMA = (
    "--seed 3", "--temp 0.3", "--top-k 7", "--top-p 0.5", "--min-p 0.2", "--repeat-penalty 1.3", "-c 512", "-b 64", "-ub 32",
    "-ctk q8_0", "-ctv q8_0", "-fa off", "-np 3", "--no-kv-unified", "--rope-freq-base 7000",
    "--chat-template chatml", "--jinja", "--no-warmup --swa-full", "--grammar-file {home}/g.gbnf", "--samplers top_k",
    "--chat-template-file {home}/other.jinja", "--override-kv llama.context_length=int:64", "--mirostat 2", "-t 3", "--mlock -fit off",
)  # fmt: skip
TRANSFORMERS = (
    "--dtype float32",
    "--default-seed 3",
    "--continuous-batching",
    "--attn-implementation eager",
    "--trust-remote-code",
)
OPTIONS: Mapping[str, Sequence[str]] = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "llama.cpp": LLAMA,
    "transformers": TRANSFORMERS,
}

VARIABLES = (
    "NCCL_ALGO=Tree", "NVIDIA_TF32_OVERRIDE=1", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1", "CUBLAS_WORKSPACE_CONFIG=:16:8",
    "LD_PRELOAD={home}/inject.so", "LD_AUDIT={home}/inject.so", "PYTHONPATH={home}/more", "PYTHONHOME={home}/python",
    "TORCHDYNAMO_DISABLE=1", "ATEN_CPU_CAPABILITY=default", "OMP_NUM_THREADS=3",
)  # fmt: skip
OWN = {
    "vllm": ("VLLM_ATTENTION_BACKEND=FLASHINFER", "VLLM_USE_V1=0", "VLLM_PLUGINS=other", "VLLM_BATCH_INVARIANT=1",
             "VLLM_MODEL_REDIRECT_PATH={home}/redirect", "VLLM_ALLREDUCE_USE_SYMM_MEM=0", "VLLM_USE_DEEP_GEMM=1"),
    "sglang": ("SGLANG_MOE_PADDING=1", "SGLANG_PLUGINS=other", "SGLANG_USE_AITER=1"),
    "llama.cpp": ("LLAMA_ARG_CTX_SIZE=256", "GGML_CUDA_FORCE_MMQ=1"),
    "transformers": (),
}  # fmt: skip
PACKAGES: Mapping[str, Sequence[str]] = {
    "vllm": ("torch", "transformers", "tokenizers", "jinja2", "xgrammar", "flashinfer-python", "flash-attn", "triton", "numpy",
             "outlines-core", "llguidance", "mistral-common", "sentencepiece", "tiktoken"),
    "sglang": ("torch", "transformers", "tokenizers", "jinja2", "xgrammar", "flashinfer-python", "sgl-kernel", "triton"),
    "llama.cpp": (),
    "transformers": ("torch", "tokenizers", "jinja2", "accelerate", "safetensors"),
}  # fmt: skip
GPUS: Sequence[Mapping[str, str]] = (
    {"gpu.*.name": "NVIDIA A100-SXM4-80GB", "gpu.*.ids": "20B210DE", "gpu.*.capability": "8 0", "gpu.*.cores": "6912"},
    {"gpu.*.name": "NVIDIA L4", "gpu.*.ids": "27B810DE", "gpu.*.capability": "8 9", "gpu.*.cores": "7424", "gpu.*.memory_mib": "23034"},
    {"driver": "570.124.06"},
)  # fmt: skip


def hosts(draw: random.Random) -> tuple[str, Side]:
    """An engine and a host that serves with it."""
    engine = draw.choice(("vllm", "vllm", "vllm", "sglang", "sglang", "llama.cpp", "transformers"))
    flags = " ".join(draw.sample([each for each in OPTIONS[engine] if "other.jinja" not in each], draw.randint(0, 2)))
    held = {name: "1.0.0" for name in PACKAGES[engine] if name not in ("torch", "transformers") and draw.random() < 0.5}
    env = dict(each.split("=", 1) for each in draw.sample(VARIABLES, 3) if "{home}" not in each and draw.random() < 0.3)
    more: dict[str, Any] = {
        "packages": held,
        "env": env,
        "home": {"other.jinja": "{{ messages[0].content }}!", "g.gbnf": 'root ::= "a"'},
    }
    if engine == "vllm":
        return engine, vllm(draw.choice(("0.10.2", "0.11.0", "0.20.0", "0.32.0", "0.33.0")), flags, **more)
    if engine == "sglang":
        return engine, sglang(draw.choice(("0.5.4", "0.5.18", "0.5.23")), flags, **more)
    if engine == "transformers":
        return engine, transformers("5.24.0", flags, **more)
    del more["packages"]
    return engine, llama(flags, build="b11549", **more)


def _options(draw: random.Random, engine: str, side: Side) -> Iterator[Change]:
    taken = set(side.argv.split())
    added = draw.choice([each for each in OPTIONS[engine] if each.split()[0] not in taken])
    yield f"added {added}", side.but(argv=f"{side.argv} {added}")
    words = side.argv.split(" --")
    if len(words) > 2 and engine in ("vllm", "transformers"):
        yield f"dropped --{words[-1]}", side.but(argv=" --".join(words[:-1]))


def _variables(draw: random.Random, engine: str, side: Side) -> Iterator[Change]:
    name, _, value = draw.choice(
        [each for each in OWN[engine] + VARIABLES if each.split("=")[0] not in side.env]
    ).partition("=")
    yield f"set {name}", side.but(env={name: value}, home={"redirect": "", "more/x.py": "", "inject.so": ""})
    if side.env:
        gone = draw.choice(sorted(side.env))
        yield (
            f"unset {gone}",
            msgspec.structs.replace(side, env={name: text for name, text in side.env.items() if name != gone}),
        )


def _packages(draw: random.Random, engine: str, side: Side) -> Iterator[Change]:
    if not PACKAGES[engine]:
        return
    name = draw.choice(PACKAGES[engine])
    if name in side.packages:
        yield f"moved {name}", side.but(packages={name: side.packages[name] + ".1"})
        if name not in ("torch", "transformers"):
            yield (
                f"dropped {name}",
                msgspec.structs.replace(
                    side, packages={key: text for key, text in side.packages.items() if key != name}
                ),
            )
    else:
        yield f"installed {name}", side.but(packages={name: "2.0.0"})


def _files(draw: random.Random, engine: str, side: Side) -> Iterator[Change]:
    if side.gguf:
        yield "another GGUF", side.but(edit=(b"<|im_start|>", b"<|im_begin|>"))
        return
    name, text = draw.choice((
        ("generation_config.json", json.dumps({"temperature": draw.randint(1, 9) / 10})), ("generation_config.json", None),
        ("chat_template.jinja", "{{ messages[0].content }}?"), ("added.safetensors", "x" * 16), ("modeling_x.py", "import os\n"),
        ("special_tokens_map.json", "{}"), ("tokenizer_config.json", "{}"), ("optimizer_model.py", "import os\n"),
    ))  # fmt: skip
    if text is not None or name not in side.files:
        yield f"{name} is another", side.but(files={name: text})
    yield (
        "config.json is another",
        side.but(config={draw.choice(("rope_theta", "rms_norm_eps", "hidden_act")): draw.randint(2, 999)}),
    )


def _start(draw: random.Random, engine: str, side: Side) -> Iterator[Change]:
    if engine == "llama.cpp":
        return
    name, text = draw.choice((
        ("sitecustomize.py", "import os\n"), ("usercustomize.py", "import os\n"), ("zz.pth", "import os; os.environ['A'] = '1'\n"),
        ("zz.pth", "{home}/more\n"), (f"{engine}.py", "raise SystemExit\n"),
    ))  # fmt: skip
    yield f"{name} in site-packages", side.but(site={name: text}, home={"more/x.py": ""})
    if engine in ("vllm", "sglang"):
        group = {"vllm": "vllm.general_plugins", "sglang": "sglang.srt.plugins"}[engine]
        yield (
            "a plugin",
            side.but(
                packages={"nudge": "1.0"},
                site={"nudge-1.0.dist-info/entry_points.txt": f"[{group}]\nnudge = nudge:go\n"},
            ),
        )


def _gpus(draw: random.Random, engine: str, side: Side) -> Iterator[Change]:
    yield "another GPU or driver", side.but(gpu=draw.choice(GPUS))


_KINDS: Sequence[Callable[[random.Random, str, Side], Iterator[Change]]] = (
    _options,
    _variables,
    _packages,
    _files,
    _start,
    _gpus,
)


def changes(draw: random.Random, engine: str, side: Side) -> Iterator[Change]:
    """Changes of a host without end, each of which moves output."""
    while True:
        for kind in _KINDS:
            yield from kind(draw, engine, side)


QUIET = {
    "vllm": ("--port 9001", "--host 0.0.0.0", "--uvicorn-log-level warning", "--served-model-name other", "--api-key k-1234567890"),
    "sglang": ("--port 9001", "--host 0.0.0.0", "--log-level warning", "--served-model-name other", "--api-key k-1234567890"),
    "llama.cpp": ("--port 9001", "--host 0.0.0.0", "--alias other", "--log-verbosity 1", "--metrics"),
    "transformers": ("--port 9001", "--host 0.0.0.0", "--log-level warning"),
}  # fmt: skip
QUIET_VARIABLES = (
    "TERM=xterm",
    "LANG=C.UTF-8",
    "HOSTNAME=gpu-07",
    "KUBERNETES_SERVICE_HOST=10.0.0.1",
    "POD_IP=10.0.0.7",
    "VLLM_LOGGING_LEVEL=DEBUG",
)


def restarts(draw: random.Random, engine: str, side: Side) -> Iterator[Change]:
    """Starts of the same host without end: another port, other names and logs, other variables that nothing reads."""
    while True:
        option = draw.choice(QUIET[engine])
        name, _, value = draw.choice(QUIET_VARIABLES).partition("=")
        if draw.random() < 0.5:
            yield f"started with {option}", side.but(argv=f"{side.argv} {option}")
        else:
            yield f"started with {name}", side.but(env={name: value}, home={f"logs/{draw.randint(0, 9)}.log": "x"})
