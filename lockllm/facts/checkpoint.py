"""Facts of the model's files: where they come from, what they declare, and each one's digest."""

from __future__ import annotations

from typing import Any

import msgspec

from lockllm.facts.fact import Fact, Family, Group, Kind
from lockllm.facts.types import ANY, BOOL, COMMIT, COUNT, COUNTS, DTYPE, FILE, NUMBER, SHA256, TEXT, TEXT_SET

MOST_FILES = 50_000
"""Files of one checkpoint: five times as many as the largest have, and each format tells so many in seconds."""
CHECKPOINT = Group(name="checkpoint", about="the model's files and what they declare", guarded=True)

_FILES = ("checkpoint.files",)
AGAIN = "download the locked files again: hf download REPO --revision COMMIT"
_CONFIG = "restore the locked config.json, or run `lockllm lock` if the change is meant"


def _declared(
    name: str, type_: object, about: str, effect: str, kind: Kind = Kind.STEP, since: int = 1
) -> Fact[object]:
    return Fact(
        ("checkpoint", name), type_, kind, effect, _CONFIG, about,  # type: ignore[arg-type]
        follows_from=_FILES, live=False, settable=False, since=since,
    )  # fmt: skip


REPO = Fact(
    ("checkpoint", "repo"), TEXT, Kind.IDENTITY, "the model is another one", "point the server at the locked repository",
    "The Hub repository the files come from.", follows_from=_FILES,
)  # fmt: skip
REVISION = Fact(
    ("checkpoint", "revision"), TEXT, Kind.IDENTITY, "the branch or tag that is followed is another", "set it in llm.toml",
    "The branch, tag or commit that was asked for; recorded and diffed, never verified: `commit` is what counts.",
    verified=False,
)  # fmt: skip
COMMIT_ = Fact(
    ("checkpoint", "commit"), COMMIT, Kind.STEP, "weights, template or tokenizer of another commit are served",
    "serve the locked commit: --revision COMMIT", "The commit that the revision was resolved to.", follows_from=_FILES,
    part="weights",
)  # fmt: skip
FORMAT = Fact(
    ("checkpoint", "format"), TEXT, Kind.STEP, "other tensors and another tokenizer are read", AGAIN,
    "How the weights are stored: safetensors, gguf, mistral, bin, tensorrt-llm.", follows_from=_FILES, settable=False,
)  # fmt: skip
ARCHITECTURE = _declared(
    "architecture", TEXT, "The model class that the checkpoint names.", "another model class computes"
)
DTYPE_ = _declared("dtype", DTYPE, "The dtype that the checkpoint declares; a mix in the tensors is told apart.",
                   "`auto` loads the weights in another precision")  # fmt: skip
MAX_POSITION_EMBEDDINGS = _declared(
    "max_position_embeddings",
    COUNT,
    "The context length that the checkpoint declares.",
    "the default context length moves",
)
ROPE_TYPE = _declared("rope_type", TEXT, "How positions are scaled.", "positions are encoded otherwise")
ROPE_THETA = _declared("rope_theta", NUMBER, "The base of the rotary frequencies.", "positions are encoded otherwise")
ROPE_FACTOR = _declared("rope_factor", NUMBER, "The factor of the rotary scaling.", "positions are encoded otherwise")
ORIGINAL_MAX_POSITION_EMBEDDINGS = _declared(
    "original_max_position_embeddings", COUNT, "The context length before scaling.", "positions are encoded otherwise"
)
SLIDING_WINDOW = _declared(
    "sliding_window", COUNT, "The attention window, where there is one.", "far tokens are seen or not"
)
TIE_WORD_EMBEDDINGS = _declared(
    "tie_word_embeddings", BOOL, "Whether input and output embeddings are one.", "other logits"
)
ATTENTION_CHUNK_SIZE = _declared(
    "attention_chunk_size",
    COUNT,
    "The chunk that local attention sees, where there is one.",
    "far tokens are seen or not",
    since=2,
)
PARTIAL_ROTARY_FACTOR = _declared(
    "partial_rotary_factor",
    NUMBER,
    "The share of each head that is rotated.",
    "positions are encoded otherwise",
    since=2,
)
COMPRESS_ROPE_THETA = _declared(
    "compress_rope_theta",
    NUMBER,
    "The base of the rotary frequencies of compressed keys.",
    "positions are encoded otherwise",
    since=2,
)
STOP_TOKEN_IDS = _declared(
    "stop_token_ids",
    COUNTS,
    "The union of the stop ids that the checkpoint's files declare.",
    "answers end elsewhere or never",
)
TENSOR_DTYPES = _declared(
    "tensor_dtypes", TEXT_SET, "The dtypes found in the tensors themselves.", "other precision is stored"
)
CODE_REPO = Fact(
    ("checkpoint", "code_repo"), TEXT, Kind.STEP, "modeling code of another repository runs", "serve the locked code repository",
    "The repository that remote code (`auto_map`) comes from, where it is not the checkpoint's own.", settable=False,
)  # fmt: skip
WEIGHT_VERSION = Fact(
    ("checkpoint", "weight_version"), TEXT, Kind.STEP, "the server answers by weights that were put in since it started",
    "restart the server", "The version that the server gives the weights it serves, where it is not that of its start.",
    denied=True, settable=False, since=2,
)  # fmt: skip
CODE_COMMIT = Fact(
    ("checkpoint", "code_commit"), COMMIT, Kind.STEP, "modeling code of another commit runs", "pin it: --code-revision COMMIT",
    "The commit of the remote code.", settable=False,
)  # fmt: skip
MANIFEST_SHA256 = Fact(
    ("checkpoint", "manifest_sha256"), SHA256, Kind.STEP, "the tag names other layers: weights, template or parameters moved",
    "pull or create the locked model again", "The sha256 of an Ollama model's manifest: every layer follows from it.",
    settable=False, part="weights",
)  # fmt: skip
LICENSE_SHA256 = Fact(
    ("checkpoint", "license_sha256"), SHA256, Kind.IDENTITY, "the license text differs", "pull or create the locked model again",
    "The sha256 of an Ollama model's license; of several, over their digests in order.", settable=False, since=2,
)  # fmt: skip
LAYERS = Family(
    Fact(
        ("checkpoint", "layers"), SHA256, Kind.STEP, "the model's template, system text, parameters or weights differ",
        "pull or create the locked model again",
        "One layer of an Ollama model, by its kind: the sha256 of its bytes, or its blob's name where it is too large to read.",
        settable=False, since=2, causes=("checkpoint.manifest_sha256",),
    ),
    closed=True,
)  # fmt: skip
PATH = Fact(
    ("checkpoint", "path"), TEXT, Kind.IDENTITY, "engines that guess a template from the folder's name may guess another",
    "serve the model under the locked folder name",
    "The path or folder name that a template was guessed from; locked only where an engine guesses.", lockable=True,
    settable=False, on_request=True,
)  # fmt: skip
CONTENT_SHA256 = Fact(
    ("checkpoint", "content_sha256"), SHA256, Kind.STEP, "at least one file holds other bytes", AGAIN,
    "The sha256 over the sorted lines `SHA256  PATH` of all locked files; a shell can recompute it.", follows_from=_FILES,
    live=False, settable=False, part="weights",
)  # fmt: skip
GENERATION_CONFIG = Family(
    Fact(
        ("checkpoint", "generation_config"), ANY, Kind.STEP, "the engine's sampling defaults may follow it",
        "restore the locked generation_config.json", "A key of generation_config.json as declared, not as in force.",
        follows_from=_FILES, live=False, settable=False,
    )
)  # fmt: skip
_PROCESSED = "images, video or sound become other tokens"
PROCESSOR = Family(
    Fact(
        ("checkpoint", "processor"), ANY, Kind.STEP, _PROCESSED,
        "restore the locked preprocessor_config.json",
        "A limit or setting of the image, video or audio processor, as its file declares it.",
        follows_from=_FILES, live=False, settable=False, since=2,
    ),
    depth=0,
)  # fmt: skip
GGUF = Family(
    Fact(
        ("checkpoint", "gguf"), ANY, Kind.STEP, "the model computes otherwise", AGAIN,
        "A setting of the architecture in a GGUF's metadata, under its own key.",
        follows_from=_FILES, live=False, settable=False, since=2,
    )
)  # fmt: skip
_EFFECTS = dict.fromkeys(
    ("preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json", "image_processor.json"),
    _PROCESSED,
)
"""Files whose other bytes have an effect of their own."""


def _of_file(row: Fact[Any]) -> Fact[Any]:
    effect = _EFFECTS.get(row.path[-1].rpartition("/")[2])
    return row if effect is None else msgspec.structs.replace(row, effect=effect)


FILES = Family(
    Fact(
        ("checkpoint", "files"), FILE, Kind.STEP, "the model is read from other bytes", AGAIN,
        "One file that reaches inference: its size and the sha256 of its bytes.", live=False, settable=False,
    ),
    closed=True, detail=_of_file,
)  # fmt: skip
BLAKE3 = Family(
    Fact(
        ("checkpoint", "blake3"), ANY, Kind.STEP, "the file holds other bytes", AGAIN,
        "The BLAKE3 digest of one file, beside its sha256; part of no digest.", live=False, settable=False,
        follows_from=_FILES,
    )
)  # fmt: skip

TOKENIZER = Group(name="tokenizer", about="what turns text into token ids", waits=True)
TOKENIZER_REPO = Fact(
    ("tokenizer", "repo"), TEXT, Kind.STEP, "text becomes other token ids", "point the server at the locked tokenizer",
    "The repository of the tokenizer, where it is not the checkpoint's own.", denied=True,
)  # fmt: skip
TOKENIZER_COMMIT = Fact(
    ("tokenizer", "commit"), COMMIT, Kind.STEP, "text becomes other token ids", "pin it: --tokenizer-revision COMMIT",
    "The commit of a tokenizer that comes from another repository or revision.", part="template",
)  # fmt: skip
TOKENIZER_CONTENT = Fact(
    ("tokenizer", "content_sha256"), SHA256, Kind.STEP, "text becomes other token ids", "restore the locked tokenizer files",
    "The sha256 over the sorted lines `SHA256  PATH` of the tokenizer's files.", follows_from=_FILES, live=False,
    settable=False, part="template", unless="tokenizer.repo",
)  # fmt: skip
TOKENIZER_MODE = Fact(
    ("tokenizer", "mode"), TEXT, Kind.STEP, "another tokenizer implementation and template renderer is used",
    "start the server with the locked tokenizer mode", "The tokenizer implementation that the engine selects.",
    causes=("engine.version",),
)  # fmt: skip


def _tokenizer(name: str, type_: object, about: str) -> Fact[object]:
    return Fact(
        ("tokenizer", name), type_, Kind.STEP, "text becomes other token ids", "restore the locked tokenizer files", about,  # type: ignore[arg-type]
        follows_from=_FILES, live=False, settable=False, unless="tokenizer.repo",
    )  # fmt: skip


TOKENIZER_MODEL = _tokenizer("model", TEXT, "The kind of tokenizer, as GGUF names it.")
TOKENIZER_PRE = _tokenizer("pre", TEXT, "The pre-tokenizer, as GGUF names it.")
TOKENIZER_BOS = _tokenizer("bos_token_id", COUNT, "The id of the beginning-of-sequence token.")
TOKENIZER_EOS = _tokenizer("eos_token_id", COUNT, "The id of the end-of-sequence token.")
TOKENIZER_ADD_BOS = _tokenizer("add_bos_token", BOOL, "Whether the tokenizer adds a beginning token by itself.")

QUANTIZATION = Group(name="quantization", about="how the stored weights are quantized, canonical over every dialect")


def _quantization(name: str, type_: object, about: str) -> Fact[object]:
    return Fact(
        ("quantization", name), type_, Kind.STEP, "the weights are other numbers",  # type: ignore[arg-type]
        "serve the locked checkpoint", about, follows_from=_FILES, live=False, settable=False,
        part="weights" if name == "method" else "",
    )  # fmt: skip


METHOD = _quantization("method", TEXT, "The quantization method; `none` is a value.")
CHECKPOINT_FORMAT = _quantization("checkpoint_format", TEXT, "The packing of the method, where it has several.")
SCHEME = _quantization("scheme", TEXT, "Bits of weights and activations in one word.")
BITS = _quantization("bits", NUMBER, "Bits of a stored weight.")
WEIGHT_TYPE = _quantization("weight_type", TEXT, "int, float or codebook.")
WEIGHT_GRANULARITY = _quantization("weight_granularity", TEXT, "What shares one scale: tensor, channel, group, block.")
GROUP_SIZE = _quantization("group_size", ANY, "Weights in a group; -1: one channel.")
SYMMETRIC = _quantization("symmetric", BOOL, "Whether zero points are left out.")
ACTIVATION_BITS = _quantization("activation_bits", NUMBER, "Bits of an activation; 16: not quantized.")
ACTIVATION_TYPE = _quantization("activation_type", TEXT, "int or float.")
ACTIVATION_DYNAMIC = _quantization("activation_dynamic", ANY, "Whether activation scales are computed at run time.")
KV_CACHE = _quantization("kv_cache", TEXT, "The KV cache type that the checkpoint asks for.")
IGNORED = _quantization("ignored", TEXT_SET, "Modules that stay unquantized.")
DESC_ACT = _quantization("desc_act", ANY, "Whether columns were quantized in another order than their own (act-order).")
DOUBLE_QUANT = _quantization("double_quant", BOOL, "Whether the scales are quantized too (bitsandbytes).")
COMPUTE_DTYPE = _quantization("compute_dtype", DTYPE, "The dtype that stored weights are computed in.")
OUTLIER_THRESHOLD = _quantization("outlier_threshold", NUMBER, "From which value on bitsandbytes computes in 16 bits.")
SCALE_FORMAT = _quantization("scale_format", TEXT, "How scales are stored; ue8m0: as powers of two.")
EXPERT_DTYPE = _quantization("expert_dtype", TEXT, "The type of the experts' weights, where it is one of their own.")
KV_CACHE_DYNAMIC = _quantization("kv_cache_dynamic", BOOL, "Whether KV cache scales are computed at run time.")
GROUPS = _quantization("groups", TEXT_SET, "Where the quantization varies by module: each group and its modules.")

ADAPTERS = Group(name="adapters", about="LoRA adapters that are loaded beside the checkpoint", waits=True)
ADAPTER = Family(
    Fact(
        ("adapters",), ANY, Kind.STEP, "requests to the adapter are answered by other weights", "load the locked adapter",
        "A LoRA adapter: repo, commit, content_sha256 and the file digests, as for the checkpoint.", part="weights",
        causes=("adapters.*.scale", "adapters.*.content_sha256"),
    ),
    closed=True, closed_by=("serve",), depth=0,
)  # fmt: skip
DRAFT = Group(name="draft", about="the draft model of speculative decoding", waits=True)
DRAFT_FACT = Family(
    Fact(
        ("draft",), ANY, Kind.NOISE, "other drafts are accepted, and batches are shaped otherwise",
        "start the server with the locked draft model", "The draft model: repo, commit, content_sha256.",
        causes=("draft.content_sha256",),
    ),
    closed=True, closed_by=("serve",), depth=0,
)  # fmt: skip
ADAPTER_FOLDER = Group(name="adapter", about="an adapter folder, as `inspect` reads it")
ADAPTER_FIELD = Family(
    Fact(
        ("adapter",), ANY, Kind.STEP, "the adapter is another one", "restore the locked adapter",
        "A field of adapter_config.json; only in `inspect` of an adapter folder.", lockable=False, settable=False,
    )
)  # fmt: skip
