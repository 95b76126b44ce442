"""What a llama.cpp server's endpoints show: /props, /v1/models, /slots, /lora-adapters (builds b7079 to b11549)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lockllm.engines import Answer, Context, Probe
from lockllm.engines.llamacpp import build as builds
from lockllm.engines.llamacpp.given import adapter_name, digest
from lockllm.facts.fact import Stage
from lockllm.facts.observation import ABSENT, By, Reading, Unobserved
from lockllm.facts.registry import fact, row_of, seen
from lockllm.facts.types import single

PROBES = tuple(Probe(path=path) for path in ("/props", "/v1/models", "/slots", "/lora-adapters", "/health"))
_RANDOM_SEED = 4294967295
_SAMPLING = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "typical_p": "typical_p",
    "top_n_sigma": "top_n_sigma",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "repeat_last_n": "repeat_last_n",
    "dry_multiplier": "dry_multiplier",
    "dry_base": "dry_base",
    "dry_allowed_length": "dry_allowed_length",
    "dry_penalty_last_n": "dry_penalty_last_n",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
    "dynatemp_range": "dynatemp_range",
    "dynatemp_exponent": "dynatemp_exponent",
    "adaptive_target": "adaptive_target",
    "adaptive_decay": "adaptive_decay",
    "samplers": "samplers",
    "backend_sampling": "backend_sampling",
}
"""Key of default_generation_settings.params -> sampling.*."""
HIDDEN = (
    "serve.max_num_batched_tokens", "serve.ubatch_size", "serve.kv_cache_dtype", "serve.flash_attn", "serve.kv_unified",
    "serve.enable_prefix_caching", "serve.cache_reuse", "serve.cache_ram", "serve.cont_batching", "serve.jinja",
    "serve.split_mode", "sampling.max_tokens",
)  # fmt: skip
"""Facts that no endpoint of llama.cpp's server shows; /props says -1 for max_tokens whatever -n is (run, b11549)."""
_WITNESS = "look from the server's own host, where its command line shows, or pass a log written with -lv 4"
_FTYPES = {
    "Q4_K - Medium": "Q4_K_M", "Q4_K - Small": "Q4_K_S", "Q5_K - Medium": "Q5_K_M", "Q5_K - Small": "Q5_K_S",
    "Q3_K - Large": "Q3_K_L", "Q3_K - Medium": "Q3_K_M", "Q3_K - Small": "Q3_K_S", "Q2_K - Medium": "Q2_K",
    "Q2_K - Small": "Q2_K_S", "MXFP4 MoE": "MXFP4_MOE",
}  # fmt: skip


def detect(answers: Sequence[Answer]) -> bool:
    """Whether these are llama.cpp's: its Server header, or the shape of its /props."""
    for answer in answers:
        if answer.headers.get("server", "").lower() == "llama.cpp":
            return True
        if (
            answer.probe.path == "/props"
            and isinstance(answer.json, dict)
            and "default_generation_settings" in answer.json
        ):
            return True
    return False


def from_http(answers: Sequence[Answer], context: Context) -> Iterator[Reading | Unobserved]:
    """Readings of every endpoint that answered, and what none of them can show."""
    by_path = {answer.probe.path: answer for answer in answers}
    yield seen("engine.name", "llama.cpp", _named_by(answers), By.ENDPOINT)
    props = by_path.get("/props")
    if props is None or props.status != 200 or not isinstance(props.json, dict):
        yield from _without_props(props)
    elif props.json.get("role") == "router":
        fix = "look at one of the servers that it starts: its pid, or its own port"
        yield from _build(props.json, props.source)
        for group in ("serve", "sampling", "chat_template"):
            yield Unobserved((group,), "this is llama.cpp's router: it serves no model itself", fix)
        return
    else:
        yield from _props(props.json, props.source)
    yield from _models(by_path.get("/v1/models"), props)
    yield from _slots(by_path.get("/slots"), props)
    yield from _adapters(by_path.get("/lora-adapters"))
    for key in HIDDEN:
        yield Unobserved(row_of(key).path, "no endpoint of llama.cpp's server shows it", _WITNESS)


def scheme(ftype: str) -> str | None:
    """The GGUF name of what is shown as `Q4_K - Medium`; None where nothing is quantized."""
    plain = ftype.removeprefix("(guessed) ").removeprefix("all ").partition(",")[0].strip()
    plain = _FTYPES.get(plain, plain).partition(" - ")[0]
    return None if plain in ("F32", "F16", "BF16", "unknown") or not plain else plain


def _named_by(answers: Sequence[Answer]) -> str:
    for answer in answers:
        if answer.headers.get("server", "").lower() == "llama.cpp":
            return f"{answer.source}: header Server"
    return "GET /props"


def _without_props(props: Answer | None) -> Iterator[Unobserved]:
    groups = ("engine.version", "serve.max_model_len", "serve.max_num_seqs", "chat_template.sha256")
    reason, fix = "/props did not answer", "check whether the server hangs"
    if props is not None and props.status in (401, 403):
        reason, fix = "/props asks for a key", "name the variable that holds the key: --api-key-env NAME"
    elif props is not None and props.status == 503:
        reason, fix = "the model is still loading", "wait for it: --wait SECONDS"
    elif props is not None:
        reason, fix = f"/props answers {props.status}", "check what answers there"
    for key in groups:
        yield Unobserved(row_of(key).path, reason, fix, Stage.LIVE)
    yield Unobserved(("sampling",), reason, fix, Stage.LIVE)


def _props(body: Mapping[str, Any], source: str) -> Iterator[Reading | Unobserved]:
    yield from _build(body, source)
    settings = body.get("default_generation_settings")
    settings = settings if isinstance(settings, dict) else {}
    if _whole(settings.get("n_ctx")):
        where = f"{source}: default_generation_settings.n_ctx"
        yield seen("serve.max_model_len", settings["n_ctx"], where, By.ENDPOINT)
    if _whole(body.get("total_slots")):
        yield seen("serve.max_num_seqs", body["total_slots"], f"{source}: total_slots", By.ENDPOINT)
    if isinstance(body.get("model_path"), str):
        yield seen("checkpoint.path", body["model_path"], f"{source}: model_path", By.ENDPOINT)
    if isinstance(body.get("model_ftype"), str) and (quantized := scheme(body["model_ftype"])):
        yield seen("quantization.scheme", quantized, f"{source}: model_ftype", By.ENDPOINT)
    template = body.get("chat_template")
    if isinstance(template, str):
        yield seen("chat_template.sha256", digest(template), f"{source}: chat_template", By.ENDPOINT)
    else:
        yield Unobserved(fact("chat_template.sha256").path, "/props holds no chat_template", "use a newer build")
    params = settings.get("params", settings)
    yield from _sampling(params if isinstance(params, dict) else {}, f"{source}: default_generation_settings")


def _build(body: Mapping[str, Any], source: str) -> Iterator[Reading | Unobserved]:
    info = body.get("build_info")
    version, commit = builds.parse_info(info) if isinstance(info, str) else (None, None)
    shown = info if isinstance(info, str) and len(info) < 60 else "nothing"
    where = f"{source}: build_info"
    if version:
        yield seen("engine.version", version, where, By.ENDPOINT)
    else:
        reason = f"/props says {shown}: this build was made outside git, and lost its number"
        yield Unobserved(
            fact("engine.version").path, reason, "look from the server's own host: its package names the build"
        )
    if commit:
        yield seen("engine.build", commit, where, By.ENDPOINT)
    else:
        reason = f"/props says {shown}: the build lost its commit"
        yield Unobserved(
            fact("engine.build").path, reason, "build llama.cpp from a git checkout, or lock libraries.*.sha256"
        )


def _sampling(params: Mapping[str, Any], source: str) -> Iterator[Reading]:
    for key, name in _SAMPLING.items():
        value = params.get(key)
        if isinstance(value, (bool, int, float, list)):
            yield seen(("sampling", name), _plain(value), f"{source}.{key}", By.ENDPOINT)
    limit = params.get("max_tokens", params.get("n_predict"))
    if _whole(limit) and limit >= 0:
        yield seen("sampling.max_tokens", limit, f"{source}.max_tokens", By.ENDPOINT)
    seed = params.get("seed")
    if _whole(seed):
        shown = ABSENT if seed in (-1, _RANDOM_SEED) else seed
        yield seen("sampling.seed", shown, f"{source}.seed", By.ENDPOINT)
        yield seen("serve.seed", shown, f"{source}.seed", By.ENDPOINT)
    if isinstance(params.get("stop"), list) and params["stop"]:
        yield seen("sampling.stop", params["stop"], f"{source}.stop", By.ENDPOINT)


def _plain(value: Any) -> Any:
    """A float32 as a person writes it: 0.20000000298023224 is 0.2."""
    if not isinstance(value, float):
        return value
    return next(
        (short for digits in range(1, 10) if single(short := float(f"{value:.{digits}g}")) == single(value)), value
    )


def _models(answer: Answer | None, props: Answer | None) -> Iterator[Reading]:
    """meta.n_ctx is /props' word again; it counts where /props is closed."""
    if answer is None or answer.status != 200 or not isinstance(answer.json, dict):
        return
    data = answer.json.get("data")
    first = data[0] if isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict) else {}
    meta = first.get("meta")
    if not isinstance(meta, dict):
        return
    if (props is None or props.status != 200) and _whole(meta.get("n_ctx")):
        yield seen("serve.max_model_len", meta["n_ctx"], f"{answer.source}: meta.n_ctx", By.ENDPOINT)
    if _whole(meta.get("n_ctx_train")):
        where = f"{answer.source}: meta.n_ctx_train"
        yield seen("checkpoint.max_position_embeddings", meta["n_ctx_train"], where, By.ENDPOINT)


def _slots(answer: Answer | None, props: Answer | None) -> Iterator[Reading]:
    if answer is None or answer.status != 200 or not isinstance(answer.json, list) or not answer.json:
        return
    if props is not None and props.status == 200:
        return
    slots = [each for each in answer.json if isinstance(each, dict)]
    yield seen("serve.max_num_seqs", len(slots), answer.source, By.ENDPOINT)
    sizes = {each.get("n_ctx") for each in slots}
    if len(sizes) == 1 and _whole(size := sizes.pop()):
        yield seen("serve.max_model_len", size, f"{answer.source}: n_ctx", By.ENDPOINT)


def _adapters(answer: Answer | None) -> Iterator[Reading]:
    if answer is None or answer.status != 200 or not isinstance(answer.json, list):
        return
    for each in answer.json[:64]:
        if isinstance(each, dict) and isinstance(each.get("path"), str):
            scale = each.get("scale")
            shown = _plain(float(scale)) if isinstance(scale, (int, float)) and not isinstance(scale, bool) else ABSENT
            yield seen(("adapters", adapter_name(each["path"]), "scale"), shown, answer.source, By.ENDPOINT)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
