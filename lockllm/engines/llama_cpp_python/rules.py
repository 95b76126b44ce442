"""What llama-cpp-python's server does where nothing is typed: `llama_cpp/server/settings.py` and `types.py`, 0.3.36."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lockllm.engines.kernel.rules import Case, Rule, Rules, Told, constants, kept
from lockllm.engines.protocol import Context, Given
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, By, Unobserved, values
from lockllm.facts.registry import row_of, seen

OLDEST = "0.3.0"
NEWEST = "0.3.36"
SERVE: Mapping[str, Any] = {
    "serve.max_model_len": 2048, "serve.max_num_batched_tokens": 512, "serve.ubatch_size": 512, "serve.flash_attn": "off",
    "serve.split_mode": "layer", "serve.kv_cache_dtype": "f16", "serve.max_num_seqs": 1,
}  # fmt: skip
SAMPLING: Mapping[str, Any] = {
    "temperature": 0.8, "top_p": 0.95, "min_p": 0.05, "top_k": 40, "repetition_penalty": 1.1, "presence_penalty": 0.0,
    "frequency_penalty": 0.0, "mirostat": 0, "max_tokens": ABSENT,
}  # fmt: skip
_BUNDLED = {"0.3.36": "0c1e57098"}
"""Release -> the commit of llama.cpp inside; the installed package does not say it."""
_KEPT: Mapping[str, Any] = {
    "main_gpu": 0, "vocab_only": False, "rope_freq_base": 0.0, "rope_freq_scale": 0.0, "yarn_ext_factor": -1.0,
    "yarn_attn_factor": 1.0, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0, "yarn_orig_ctx": 0, "mul_mat_q": True,
    "rope_scaling_type": -1, "logits_all": True, "embedding": False, "offload_kqv": True, "last_n_tokens_size": 64,
    "numa": False, "cache": False, "cache_type": "ram", "cache_size": 2 << 30, "draft_model_num_pred_tokens": 10,
    "interrupt_requests": True,
}  # fmt: skip
"""Of `use_mmap`, `use_mlock` and the threads the default is what the machine has."""


def _bundled(case: Case) -> Told | None:
    commit = _BUNDLED.get(case.context.version or "")
    return seen(("engine", "bundled", "llama_cpp"), commit, "the release's changelog", By.RULE) if commit else None


RULES = Rules(
    label="llama-cpp-python",
    oldest=OLDEST,
    newest=NEWEST,
    rows=(
        *constants(SERVE),
        *(
            Rule(fact=f"sampling.{name}", value=value, says="none" if value is ABSENT else "")
            for name, value in SAMPLING.items()
        ),
        Rule(fact="sampling.completions.max_tokens", value=16, over_given=True),
        Rule(fact="engine.bundled.llama_cpp", work=_bundled, over_given=True),
        Rule(fact="serve.gpu_layers", value=0, since=NEWEST, only_omitted=True),
        *kept(_KEPT, since=NEWEST),
    ),
)


def is_release(version: str | None) -> bool:
    """Whether a version is known, so that its parser's word is final."""
    return re.match(r"\d+\.\d+\.\d+", version or "") is not None


def effective(given: Given | None, context: Context) -> Iterator[Told]:
    """Its own defaults, which differ from llama-server's: 2048 tokens, repeat penalty 1.1, one request at a time."""
    if context.version is None:
        return
    if is_release(context.version) and not RULES.unread(context.version):
        yield from RULES.effective(given, context)
        return
    held = values(given.readings) if given else {}
    reason = f"the defaults of llama-cpp-python {context.version} were not read"
    for key in (*SERVE, *(f"sampling.{each}" for each in SAMPLING)):
        if row_of(key).path not in held:
            yield Unobserved(row_of(key).path, reason, f"set the option, or use the release that was read: {NEWEST}")


def omitted(path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """The values that mean the same as leaving a setting out."""
    return RULES.omitted(path, known)
