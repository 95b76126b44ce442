"""The `check.*` rows: findings that need no lock, because a host can contradict itself."""

from __future__ import annotations

import msgspec

from lockllm.facts.fact import Policy


class CheckRow(msgspec.Struct, frozen=True):
    """One finding: its name, what it asks, what a failure does, and how it is judged where nobody says otherwise."""

    name: str
    about: str
    effect: str
    policy: Policy = Policy.EXACT  # REPORT: what the publisher of a checkpoint did, which no host can fix
    since: int = 1  # the edition of the rules that brought it; for locks of an older one it is only reported


CHECKS = (
    CheckRow(
        "check.files_complete", "Every file that the checkpoint's index names is there.", "the server will not start"
    ),
    CheckRow("check.no_incomplete_downloads", "No download of the checkpoint is unfinished.", "files may be cut"),
    CheckRow(
        "check.shards_indexed", "Index and weight files name each other and the same tensors.", "other tensors may load"
    ),
    CheckRow(
        "check.weights_readable",
        "Every weight file's header is whole and true to its size.",
        "the server will not start",
    ),
    CheckRow(
        "check.config_readable", "Every configuration file is whole and unambiguous.", "readers may take it differently"
    ),
    CheckRow(
        "check.file_names", "Every file name is plain text that no other name resembles.", "readers may mix files up"
    ),
    CheckRow(
        "check.regular_files", "Every file of the checkpoint is a regular file.", "a reader may hang or never end"
    ),
    CheckRow(
        "check.files_listed",
        "Everything below the checkpoint's folder was looked at.",
        "a file that nobody saw may be read",
    ),
    CheckRow(
        "check.newer_rules",
        "The host holds by rules that are newer than the lock.",
        "see the finding; `lockllm lock` judges by it",
        Policy.REPORT,
        since=2,
    ),
    CheckRow(
        "check.files_locked",
        "The lock holds every file that the engine may load; locks of older releases leave some out.",
        "such a file may change unseen",
        Policy.REPORT,
        since=2,
    ),
    CheckRow("check.files_stable", "No file changed during the check.", "the download may still be running"),
    CheckRow(
        "check.claimed_digests", "Files hold the bytes that their blob names and sidecars claim.", "files are damaged"
    ),
    CheckRow(
        "check.layers_whole",
        "Every layer of an Ollama model is there and holds the bytes that its name says.",
        "the model is damaged: its template, system text or parameters may be missing",
    ),
    CheckRow("check.one_commit", "All files come from one commit.", "weights and configuration may not fit together"),
    CheckRow(
        "check.one_weight_set", "The folder holds one set of weights.", "another set may be loaded", Policy.REPORT
    ),
    CheckRow(
        "check.code_pinned",
        "Remote code comes from the checkpoint itself.",
        "code of a moving branch runs",
        Policy.REPORT,
    ),
    CheckRow("check.adapter_base_pinned", "The adapter names its base's revision.", "its base may move", Policy.REPORT),
    CheckRow(
        "check.sampling_declared",
        "Sampling defaults stand in generation_config.json.",
        "transformers 5 drops them",
        Policy.REPORT,
    ),
    CheckRow("check.rope_understood", "The installed transformers reads the rope keys.", "every position is wrong"),
    CheckRow(
        "check.tokenizer_understood",
        "The installed transformers loads the tokenizer.",
        "the server will not start",
        since=2,
    ),
    CheckRow(
        "check.projector_fits", "A projector is as wide as the model beside it.", "the server will not start", since=2
    ),
    CheckRow(
        "check.one_projector", "The folder holds one projector.", "another one may be loaded", Policy.REPORT, since=2
    ),
    CheckRow(
        "check.file_type",
        "GGUF's file type is that of its tensors.",
        "the label says another quantization",
        Policy.REPORT,
    ),
    CheckRow("check.links_resolve", "No file of the checkpoint is a dangling or escaping link.", "files are missing"),
    CheckRow(
        "check.no_pointer_files",
        "No file is a Git LFS pointer, a web page, an error or empty in place of the content.",
        "the server will not start, or another text is in force",
    ),
    CheckRow(
        "check.dtype_declared",
        "The declared dtype is that of the tensors.",
        "`auto` computes in another precision",
        Policy.REPORT,
    ),
    CheckRow("check.quantization_agrees", "All files that declare a quantization agree.", "engines may pick either"),
    CheckRow(
        "check.kv_scales_there",
        "The scales of a static KV cache are stored.",
        "the scale 1.0 is used",
        Policy.REPORT,
        since=2,
    ),
    CheckRow(
        "check.output_head_there",
        "A model with an output head of its own stores it.",
        "the server will not start, or answers are noise",
        Policy.REPORT,
        since=2,
    ),
    CheckRow(
        "check.tied_embeddings_agree",
        "All places say alike whether input and output embeddings are one.",
        "engines may drop the output head",
        Policy.REPORT,
        since=2,
    ),
    CheckRow(
        "check.adapter_rank",
        "The adapter's tensors are of the rank that its configuration gives.",
        "the adapter is scaled otherwise, or does not load",
        since=2,
    ),
    CheckRow("check.stop_tokens_agree", "All files that declare stop tokens agree.", "answers may never end"),
    CheckRow("check.bos_once", "The chat template prints the beginning token at most once.", "quality drops a little"),
    CheckRow(
        "check.template_reads_clock",
        "The chat template does not read the clock.",
        "prompts change with the date",
        Policy.REPORT,
    ),
    CheckRow("check.template_renders", "The template in force renders a plain chat.", "every chat request fails"),
    CheckRow(
        "check.prompt_as_served",
        "The server's prompts are those that its template gives today.",
        "the server runs another template",
    ),
    CheckRow(
        "check.one_template",
        "One place holds the chat template, or all places agree.",
        "engines may pick another one",
        Policy.REPORT,
    ),
    CheckRow(
        "check.flags_accepted", "The engine accepts every option of the command line.", "the server will not start"
    ),
    CheckRow(
        "check.settings_take_effect", "Every option and variable that is set takes effect.", "a setting is not in force"
    ),
    CheckRow(
        "check.variables_known",
        "Every engine variable that is set is read by the installed version.",
        "it has no effect",
    ),
    CheckRow("check.deterministic_holds", "A deterministic mode that is set holds here.", "output still varies"),
    CheckRow("check.witnesses_agree", "All witnesses of a fact agree.", "a restart may change what is served"),
    CheckRow(
        "check.driver_witnesses_agree",
        "Kernel module, NVML library and libcuda are of one release, or libcuda is a newer compat one.",
        "GPUs cannot be used",
    ),
    CheckRow(
        "check.driver_supports_cuda", "The driver is new enough for the CUDA runtime.", "the server will not start"
    ),
    CheckRow(
        "check.packages_fit", "Packages that are built for each other are of fitting versions.", "kernels may crash"
    ),
    CheckRow(
        "check.bytecode_current",
        "Compiled modules that an import would take were made from the sources beside them.",
        "other code runs than the sources show",
        since=2,
    ),
    CheckRow(
        "check.packages_unedited",
        "Every file of a package is as its RECORD says: by size and time, with --deep by every byte.",
        "the package is not the release that its version names",
    ),
    CheckRow(
        "check.requirements_met",
        "The exact requirements of torch and the engine are what is installed.",
        "libraries run that the package was not built with",
        Policy.REPORT,
    ),
    CheckRow("check.one_copy_of_each_library", "One copy of each library is mapped.", "either copy may compute"),
    CheckRow("check.cuda_usable", "CUDA starts on the GPUs that NVML shows.", "the server will not start"),
    CheckRow("check.gpus_enough", "As many GPUs are visible as the server uses.", "the server will not start"),
    CheckRow("check.gpus_alike", "All GPUs of one server are alike.", "the slowest decides, and kernels differ"),
    CheckRow("check.gpus_healthy", "No GPU reports memory errors or pending repairs.", "results may be wrong"),
    CheckRow("check.server_answers", "The running server answers.", "nothing can be asked of it"),
    CheckRow("check.replicas_agree", "All servers behind one address agree.", "answers depend on which one is met"),
    CheckRow(
        "check.served_model",
        "The server says that it serves what its command names.",
        "other weights answer than those that were looked at",
    ),
    CheckRow("check.server_current", "What the server loaded still lies on disk.", "a restart changes what is served"),
)
_SINCE = {row.name: row.since for row in CHECKS}
_EFFECTS = {row.name: row.effect for row in CHECKS}


def effect(name: str) -> str:
    """What a failure of that check does; empty for a check of another release."""
    return _EFFECTS.get(name, "")


def since(name: str) -> int:
    """The edition of the rules that brought a check; of one that this release does not know the first."""
    return _SINCE.get(name, 1)
