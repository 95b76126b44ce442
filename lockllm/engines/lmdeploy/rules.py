"""LMDeploy's defaults and rules by release: 0.9 to 0.18; the move of sampling defaults at 0.15."""

from __future__ import annotations

from collections.abc import Iterable

from lockllm.engines.kernel.rules import Case, Rule, Rules, Told, constants, kept
from lockllm.engines.protocol import Context, Given
from lockllm.facts.observation import By, Check, CheckStatus, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import whole

NEWEST = "0.18.0"
GENERATION_CONFIG_SINCE = "0.15.0"
BATCH_BY_GPU: tuple[tuple[tuple[str, ...], int], ...] = (
    (("a100", "a800"), 384),
    (("h100", "h800", "h200", "l20y"), 1024),
)
BATCH_ELSE = 128


def _backend(case: Case) -> Told:
    if case.held.get(("serve", "args", "backend")) == "pytorch":
        return seen("engine.backend", "pytorch", "argument --backend pytorch is final", By.RULE)
    reason = "turbomind is only a wish: an architecture that it lacks falls back to pytorch"
    fix = "look for _turbomind in the mapped libraries, or give --backend pytorch"
    return Unobserved(("engine", "backend"), reason, fix)


def _dtype(case: Case) -> Told:
    path, declared = ("serve", "dtype"), case.context.checkpoint.get(("checkpoint", "dtype"))
    if declared in ("float32", "float16"):
        return case.told("serve.dtype", "float16", f"auto of a {declared} checkpoint")
    if declared != "bfloat16":
        return Unobserved(path, "auto follows the checkpoint's dtype, which is not known", "give --dtype")
    capability = str(case.context.host.get(("host", "compute_capability")) or "")
    if not capability:
        return Unobserved(path, "bfloat16 where the GPU has it, and the GPU is not known", "give --dtype")
    major = whole(capability.partition(".")[0])
    value = "bfloat16" if major is not None and major >= 8 else "float16"
    return case.told("serve.dtype", value, f"auto of a bfloat16 checkpoint on {capability}")


def _kv_cache(case: Case) -> Told | None:
    if case.held.get(("serve", "args", "quant_policy"), 0) not in (0, "none", "0"):
        return None
    dtype = case.held.get(("serve", "dtype"))
    if isinstance(dtype, str):
        return case.told("serve.kv_cache_dtype", dtype, "quant policy 0")
    return Unobserved(("serve", "kv_cache_dtype"), "it follows the model's dtype", "")


def _quantization(case: Case) -> Told | None:
    method = case.context.checkpoint.get(("quantization", "method"))
    return case.told("serve.quantization", method, "config.json") if method is not None else None


def _batch(case: Case) -> Told:
    product = case.context.host.get(("host", "gpu_product")) or case.context.host.get(("host", "gpu"))
    if not isinstance(product, str):
        return Unobserved(("serve", "max_num_seqs"), "128, 384 or 1024 by the GPU's name", "give --max-batch-size N")
    name = product.lower()
    size = next((size for names, size in BATCH_BY_GPU if any(each in name for each in names)), BATCH_ELSE)
    return case.told("serve.max_num_seqs", size, "by the GPU's name")


def _length(case: Case) -> Told:
    declared = case.context.checkpoint.get(("checkpoint", "max_position_embeddings"))
    if isinstance(declared, int):
        return case.told("serve.max_model_len", declared, "the model's own")
    reason = "it is the model's own, which is not known"
    return Unobserved(("serve", "max_model_len"), reason, "give --session-len N")


def _sampled(key: str, value: float) -> Rule:
    """From 0.15.0 on: the model's generation_config.json, else a value of LMDeploy's own."""

    def work(case: Case) -> Told:
        source = case.held.get(("serve", "generation_config"))
        if source not in (None, "auto", "lmdeploy"):
            return Unobserved(("sampling", key), f"it comes from {source}, which was not read", "")
        if source != "lmdeploy" and not case.context.checkpoint:
            return Unobserved(("sampling", key), "it follows generation_config.json, which is not seen", "")
        path = ("checkpoint", "generation_config", key)
        declared = case.context.checkpoint.get(path) if source != "lmdeploy" else None
        if isinstance(declared, (int, float)) and not isinstance(declared, bool):
            return case.told(f"sampling.{key}", declared, f"generation_config.json: {key}")
        return seen(("sampling", key), value, f"default of LMDeploy {case.version}", By.DEFAULT)

    says = f"generation_config.json, else {value}"
    return Rule(fact=f"sampling.{key}", since=GENERATION_CONFIG_SINCE, work=work, over_given=True, says=says)


RULES = Rules(
    label="LMDeploy",
    oldest="0.9.0",
    newest=NEWEST,
    fix="name the release, or use a newer lockllm",
    rows=(
        *constants({
            "serve.tensor_parallel_size": 1, "serve.data_parallel_size": 1, "serve.expert_parallel_size": 1,
            "serve.enable_prefix_caching": False, "serve.enforce_eager": False, "serve.trust_remote_code": False,
            "serve.max_num_batched_tokens": 8192,
        }),
        Rule(fact="serve.dtype", work=_dtype, says="float16 of float32 and float16 checkpoints; bfloat16 where the GPU has it"),
        Rule(fact="serve.kv_cache_dtype", work=_kv_cache, says="the model's dtype"),
        Rule(fact="serve.quantization", work=_quantization, says="the checkpoint's method"),
        Rule(fact="serve.max_num_seqs", work=_batch, says="by the GPU's name: 384, 1024, else 128"),
        Rule(fact="serve.max_model_len", work=_length, says="the model's own"),
        Rule(fact="engine.backend", work=_backend, over_given=True, says="turbomind, or pytorch where it lacks the architecture"),
        Rule(fact="serve.generation_config", before=GENERATION_CONFIG_SINCE, says="generation_config.json sets no sampling default"),
        Rule(fact="serve.generation_config", since=GENERATION_CONFIG_SINCE, value="auto"),
        *constants({"sampling.seed": None, "sampling.max_tokens": None}, over_given=True),
        # The OpenAI request filled these in, whatever generation_config.json said (checked at 0.9.2).
        *constants(
            {"sampling.temperature": 0.7, "sampling.top_p": 1.0, "sampling.top_k": 40, "sampling.min_p": 0.0,
             "sampling.repetition_penalty": 1.0},
            before=GENERATION_CONFIG_SINCE, over_given=True,
        ),
        _sampled("temperature", 0.8),
        _sampled("top_p", 1.0),
        _sampled("top_k", 50),
        _sampled("min_p", 0.0),
        _sampled("repetition_penalty", 1.0),
        *kept(
            {
                "backend": "turbomind", "cp": 1, "nnodes": 1, "quant_policy": 0, "cache_max_entry_count": 0.8,
                "num_gpu_blocks": 0, "cache_block_seq_len": 64, "max_prefill_token_num": 8192, "num_tokens_per_iter": 0,
                "max_prefill_iters": 1, "async": 1, "communicator": "nccl", "moe_a2a_backend": "auto",
                "rope_scaling_factor": 0.0, "kernel_block_size": -1, "vision_max_batch_size": 1, "prefix_cache_state_budget": 0,
                "prefix_cache_decode_state_interval": 0,
            },
            since=NEWEST, source="cli/serve.py, cli/utils.py",
        ),
        *constants(
            {"serve.dtype": "auto", "serve.speculative.num_speculative_tokens": 1}, since=NEWEST, only_omitted=True,
        ),
    ),
)  # fmt: skip
effective = RULES.effective
omitted = RULES.omitted


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """Findings that need no lock."""
    if given is None:
        return
    held = {reading.fact.path: reading.value for reading in given.readings}
    backend, policy = held.get(("serve", "args", "backend")), held.get(("serve", "kv_cache_dtype"))
    if backend == "turbomind" and str(policy).startswith("fp8"):
        yield Check(
            "check.settings_take_effect", CheckStatus.FAIL, "turbomind has no fp8 KV cache", "argument --quant-policy",
            "give --backend pytorch, or another --quant-policy",
        )  # fmt: skip
    elif backend == "turbomind":
        yield Check(
            "check.settings_take_effect", CheckStatus.UNKNOWN,
            "--backend turbomind is a wish: where it lacks the architecture, pytorch serves without a word on any endpoint",
            "argument --backend", "look for _turbomind in the mapped libraries",
        )  # fmt: skip
