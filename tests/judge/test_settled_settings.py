"""Settings that only one side types: when they come to the same, when they differ, and when nobody can say."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm.documents.lock import EDITION, Lock
from lockllm.documents.terms import Waiver
from lockllm.facts import keys, registry
from lockllm.facts.fact import Policy, Stage
from lockllm.facts.observation import ABSENT, NOT_GIVEN, TYPED_WHOLE, By, Observation, Reading, Unobserved
from lockllm.judge.report import Report, Result, Status
from lockllm.judge.verify import verify

VLLM = {"engine.name": "vllm", "engine.version": "0.32.0"}
LLAMA = {"engine.name": "llama.cpp", "engine.version": "b11549"}


def lock(values: dict[str, Any], asked: dict[str, Any] | None = None, edition: int = EDITION, **more: Any) -> Lock:
    return Lock(
        values={keys.parse(key): registry.read(registry.fact(key), raw) for key, raw in values.items() if raw is not None},
        absent=frozenset(keys.parse(key) for key, raw in values.items() if raw is None),
        asked={keys.parse(key): raw for key, raw in (asked or {}).items()}, edition=edition, **more,
    )  # fmt: skip


def host(
    values: dict[str, Any], asked: dict[str, Any] | None = None, *, hidden: bool = False, source: str = "argument --x",
    stage: Stage = Stage.PREFLIGHT, **more: Any,
) -> Observation:  # fmt: skip
    """A host whose command line was read whole; `hidden`: its environment could not be read."""
    return Observation(
        readings=tuple(registry.seen(key, raw, source, By.PROCESS) for key, raw in values.items()),
        asked=tuple(registry.seen(key, raw, source, By.PROCESS) for key, raw in (asked or {}).items()),
        complete=frozenset({TYPED_WHOLE, *(() if hidden else [("env",)])}), stage=stage, **more,
    )  # fmt: skip


def result(report: Report, key: str) -> Result | None:
    return next((each for each in report.results if each.fact.key == key), None)


def status(report: Report, key: str) -> str:
    found = result(report, key)
    return found.status.value if found is not None else "not named"


# --- `auto` and the file that it reads


FILE, OTHER = "1" * 64, "2" * 64
GENERATION = 'checkpoint.files."generation_config.json"'


@pytest.mark.parametrize("prefix", ["", "sha256:"])
@pytest.mark.parametrize(
    ("locked", "found", "at_lock", "on_host", "expected"),
    [
        ("auto", FILE, FILE, FILE, "match"), (FILE, "auto", FILE, FILE, "match"),
        # `auto` reads the file of the side that says it.
        (FILE, "auto", FILE, OTHER, "match"), (FILE, "auto", OTHER, FILE, "mismatch"),
        ("auto", FILE, OTHER, FILE, "match"), ("auto", FILE, FILE, OTHER, "mismatch"),
        ("auto", FILE, FILE, None, "mismatch"), (FILE, "auto", None, FILE, "mismatch"),
        (FILE, OTHER, FILE, FILE, "mismatch"), ("vllm", FILE, FILE, FILE, "mismatch"),
    ],
)  # fmt: skip
def test_auto_is_the_file_that_it_reads(
    prefix: str, locked: str, found: str, at_lock: str | None, on_host: str | None, expected: str
) -> None:
    def named(word: str) -> str:
        return prefix + word if len(word) == 64 else word

    def files(digest: str | None) -> dict[str, Any]:
        return {GENERATION: {"size": 1, "sha256": digest}} if digest else {}

    held = lock({**VLLM, "serve.generation_config": named(locked), **files(at_lock)})
    report = verify(held, host({**VLLM, "serve.generation_config": named(found), **files(on_host)}))
    judged = result(report, "serve.generation_config")
    assert judged is not None
    assert judged.status.value == expected
    assert judged.reason == ("the model folder's own file" if expected == "match" else "")


# --- a value and the option that it is typed with


@pytest.mark.parametrize(
    ("option", "holder"),
    [
        ("serve.ctx_size", "serve.max_model_len"), ("serve.cache_type_k", "serve.kv_cache_dtype"),
        ("serve.cache_type_v", "serve.kv_cache_dtype"), ("serve.predict", "sampling.max_tokens"),
        ("serve.chat_template", "chat_template.sha256"), ("serve.chat_template", "chat_template.source"),
    ],
)  # fmt: skip
def test_where_the_value_is_pinned_the_option_that_gives_it_is_not_judged(option: str, holder: str) -> None:
    typed = host(LLAMA, {option: "2048" if option.endswith(("size", "predict")) else "word"})
    assert status(verify(lock(LLAMA), typed), option) == "mismatch"
    assert status(verify(lock({**LLAMA, holder: None}), typed), option) == "not named"
    pinned = lock({**LLAMA, holder: "4096" if "max" in holder else "f" * 64})
    assert status(verify(pinned, typed), option) == "not named"


def test_one_argument_that_gives_two_facts_is_judged_by_the_pinned_one() -> None:
    """llama.cpp's `--seed` is the server's seed and the sampler's."""
    seed = {"sampling.seed": 3}
    pinned, open_ = lock({**LLAMA, **seed}), lock(LLAMA)
    typed = {"serve.seed": 3}
    assert status(verify(pinned, host({**LLAMA, **seed}, typed)), "serve.seed") == "not named"
    assert status(verify(open_, host({**LLAMA, **seed}, typed)), "serve.seed") == "mismatch"
    elsewhere = host({**LLAMA, **seed}, typed)
    other = Observation(
        readings=elsewhere.readings, complete=elsewhere.complete, stage=elsewhere.stage,
        asked=(registry.seen("serve.seed", 3, "argument --other", By.PROCESS),),
    )  # fmt: skip
    assert status(verify(pinned, other), "serve.seed") == "mismatch"
    assert status(verify(pinned, host(LLAMA, typed)), "serve.seed") == "mismatch"
    # Typed when it was locked, and not here: the sampler's seed is another fact.
    assert (
        status(verify(lock({**LLAMA, **seed}, {"serve.seed": 3}), host({**LLAMA, **seed})), "serve.seed") == "mismatch"
    )


# --- spellings


@pytest.mark.parametrize(
    ("key", "locked", "found", "expected"),
    [
        ("serve.args.some_switch", True, "true", "not named"), ("serve.args.some_switch", True, "false", "mismatch"),
        ("serve.args.some_switch", False, "false", "not named"), ("serve.args.some_number", 3, "3", "not named"),
        ("serve.args.some_number", "3", 4, "mismatch"), ("serve.max_model_len", "2048", 2048, "not named"),
        ("serve.max_model_len", 2048, "2048", "not named"), ("serve.max_model_len", "2k", 2048, "mismatch"),
    ],
)  # fmt: skip
def test_words_that_read_alike_are_one(key: str, locked: Any, found: Any, expected: str) -> None:
    assert status(verify(lock(VLLM, {key: locked}), host(VLLM, {key: found})), key) == expected


@pytest.mark.parametrize("value", ["", "{}", {}, []])
@pytest.mark.parametrize("key", ["serve.args.hf_overrides", "serve.args.anything"])
def test_an_empty_word_is_as_if_nothing_was_typed(key: str, value: Any) -> None:
    assert status(verify(lock(VLLM), host(VLLM, {key: value})), key) == "not named"
    assert status(verify(lock(VLLM, {key: value}), host(VLLM)), key) == "not named"
    pinned = result(verify(lock({**VLLM, key: value}, {key: value}), host(VLLM)), key)
    assert pinned is not None
    assert (pinned.status, pinned.source) == (Status.MATCH, "empty, as if it were left out")


def test_an_empty_word_of_a_file_or_package_is_no_spelling_of_nothing() -> None:
    held = lock({**VLLM, "chat_template.name": ""})
    report = verify(held, host({**VLLM, "chat_template.name": None}))
    assert status(report, "chat_template.name") == "mismatch"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("argument --block-size", "--block-size 64"), ("--block-size", "--block-size 64"), ("serve.yaml: block-size", "64"),
        ("argument --a of --b", "64"), ("--config serve.yaml", "64"), ("VLLM_BLOCK_SIZE", "64"),
    ],
)  # fmt: skip
def test_an_argument_is_shown_as_it_is_typed(source: str, shown: str) -> None:
    report = verify(lock(VLLM), host(VLLM, {"serve.args.block_size": 64}, source=source))
    judged = result(report, "serve.args.block_size")
    assert judged is not None
    assert (judged.expected, judged.found, judged.source, judged.seen) == (NOT_GIVEN, shown, source, True)
    assert [each.value for each in judged.readings] == [64]
    assert judged.fix == "remove what was added, or run `lockllm lock` if it is meant"
    gone = result(verify(lock(VLLM, {"serve.args.block_size": 64}), host(VLLM)), "serve.args.block_size")
    assert gone is not None
    assert (gone.expected, gone.found, gone.source, gone.readings) == ("64", NOT_GIVEN, "looked for, not there", ())
    assert gone.fix == gone.fact.fix


# --- the release that decides what a left-out setting is


HASH = "serve.args.prefix_caching_hash_algo"
"""vLLM's default was builtin until 0.10.2, and is sha256 since."""


def release(version: str, engine: str = "vllm") -> dict[str, Any]:
    return {"engine.name": engine, "engine.version": version}


@pytest.mark.parametrize(
    ("locked", "found", "word", "expected"),
    [
        ("0.9.2", "0.32.0", "builtin", "not named"), ("0.9.2", "0.32.0", "sha256", "mismatch"),
        ("0.32.0", "0.9.2", "sha256", "not named"), ("0.32.0", "0.9.2", "builtin", "mismatch"),
    ],
)  # fmt: skip
def test_what_a_lock_leaves_out_is_the_default_of_its_own_release(
    locked: str, found: str, word: str, expected: str
) -> None:
    """The other release differs by itself; the option only where its word is not the old default."""
    report = verify(lock(release(locked)), host(release(found), {HASH: word}))
    assert status(report, "engine.version") == "mismatch"
    assert status(report, HASH) == expected


@pytest.mark.parametrize(
    ("locked", "found", "word", "expected"),
    [
        ("0.9.2", "0.32.0", "sha256", "match"), ("0.9.2", "0.32.0", "builtin", "mismatch"),
        ("0.32.0", "0.9.2", "builtin", "match"), ("0.32.0", "0.9.2", "sha256", "mismatch"),
    ],
)  # fmt: skip
def test_what_a_host_leaves_out_is_the_default_of_its_own_release(
    locked: str, found: str, word: str, expected: str
) -> None:
    held = lock({**release(locked), HASH: word}, {HASH: word})
    judged = result(verify(held, host(release(found))), HASH)
    assert judged is not None
    assert judged.status.value == expected
    if expected == "match":
        assert (judged.found, judged.seen, judged.blocking) == (word, True, False)
        assert judged.source == f"what it is where it is left out: vllm {found}"
    else:
        assert (judged.found, judged.seen, judged.source) == (NOT_GIVEN, True, "looked for, not there")
        assert judged.blocking


def test_the_reason_names_the_release_whose_default_it_is() -> None:
    held = lock({**release("0.9.2"), HASH: None})
    report = verify(held, host({**release("0.32.0"), HASH: "builtin"}, {HASH: "builtin"}))
    judged = result(report, HASH)
    assert judged is not None
    assert (judged.status, judged.reason) == (Status.MATCH, "what it is where it is left out: vllm 0.9.2")
    assert judged.source == "argument --x"


def test_the_defaults_of_one_engine_say_nothing_of_another() -> None:
    held = lock({**release("0.32.0"), HASH: "sha256"}, {HASH: "sha256"})
    assert status(verify(held, host(release("0.32.0"))), HASH) == "match"
    assert status(verify(held, host(release("0.5.23", "sglang"))), HASH) == "mismatch"
    unknown = lock({"engine.name": "made-up", HASH: "sha256"}, {HASH: "sha256"})
    assert status(verify(unknown, host({"engine.name": "made-up"})), HASH) == "mismatch"
    assert status(verify(lock({HASH: "sha256"}, {HASH: "sha256"}), host(release("0.32.0"))), HASH) == "mismatch"


@pytest.mark.parametrize("version", [None, 7, ["0.32.0"]])
def test_a_host_without_a_release_that_can_be_read_has_no_defaults(version: Any) -> None:
    held = lock({**release("0.32.0"), HASH: "sha256"}, {HASH: "sha256"})
    assert status(verify(held, host({"engine.name": "vllm", "engine.version": version})), HASH) == "mismatch"


STATED = "serve.args.max_logprobs"


@pytest.mark.parametrize(
    ("locked", "found", "value", "expected"),
    [("0.99.0", "0.99.0", 20, "not named"), ("0.99.0", "0.99.0", 21, "mismatch"), ("0.99.1", "0.99.0", 20, "mismatch")],
)  # fmt: skip
def test_a_default_that_the_installed_source_states_holds_for_the_locked_release_alone(
    locked: str, found: str, value: int, expected: str
) -> None:
    seen = host(release(found), {STATED: value})
    stated = registry.seen(STATED, 20, "vllm/config/model.py: max_logprobs", By.DEFAULT)
    seen = Observation(
        readings=seen.readings, complete=seen.complete, asked=(*seen.asked, stated), stage=Stage.PREFLIGHT
    )
    assert status(verify(lock(release(locked)), seen), STATED) == expected


# --- pinned, and not typed here


SEQUENCES = "serve.max_num_seqs"


def test_a_pinned_value_that_was_typed_and_is_not_typed_here_is_gone() -> None:
    held = lock({**VLLM, SEQUENCES: 8}, {SEQUENCES: 8})
    judged = result(verify(held, host(VLLM)), SEQUENCES)
    assert judged is not None
    assert (judged.status, judged.found, judged.source) == (Status.MISMATCH, NOT_GIVEN, "looked for, not there")


def test_a_pinned_value_that_nobody_typed_is_unknown_where_nothing_shows_it() -> None:
    for stage in (Stage.PREFLIGHT, Stage.LIVE, Stage.ALL):
        report = verify(lock({**VLLM, SEQUENCES: 8}), host(VLLM, stage=stage))
        assert (status(report, SEQUENCES), report.exit_code) == ("unknown", 3)


def test_a_value_that_only_a_running_server_showed_is_not_due_before_it_runs() -> None:
    held = lock({**VLLM, SEQUENCES: 8}, {SEQUENCES: NOT_GIVEN})
    judged = result(verify(held, host(VLLM)), SEQUENCES)
    assert judged is not None
    assert (judged.status, judged.reason) == (Status.NOT_DUE, "only a running server shows it")
    live = verify(held, host(VLLM, stage=Stage.ALL))
    assert (status(live, SEQUENCES), live.exit_code) == ("unknown", 3)


def test_a_command_that_was_not_read_leaves_a_typed_value_unknown() -> None:
    held = lock({**VLLM, SEQUENCES: 8}, {SEQUENCES: 8})
    seen = host(VLLM)
    unread = Observation(readings=seen.readings, stage=Stage.PREFLIGHT)
    assert status(verify(held, unread), SEQUENCES) == "unknown"


def test_a_server_that_gave_no_answer_is_not_judged_by_what_it_leaves_out() -> None:
    held = lock({**VLLM, SEQUENCES: 8, HASH: "sha256"}, {SEQUENCES: 8, HASH: "sha256"})
    silent = host(VLLM, stage=Stage.LIVE, unobserved=(Unobserved(("check", "server_answers"), "it hangs"),))
    report = verify(held, silent)
    assert (status(report, SEQUENCES), status(report, HASH)) == ("unknown", "unknown")
    assert report.exit_code == 3
    answered = verify(held, host(VLLM, stage=Stage.LIVE))
    assert (status(answered, SEQUENCES), status(answered, HASH)) == ("mismatch", "match")


BACKEND = "serve.attention_backend"


@pytest.mark.parametrize("pinned", [{}, {BACKEND: "FLASHINFER"}])
def test_a_setting_that_a_hidden_variable_may_give_is_neither_gone_nor_a_match(pinned: dict[str, Any]) -> None:
    held = lock({**VLLM, **pinned}, {BACKEND: "FLASHINFER"})
    report = verify(held, host(VLLM, hidden=True))
    judged = result(report, BACKEND)
    assert judged is not None
    assert (judged.status, judged.found, judged.seen, report.exit_code) == (Status.UNKNOWN, None, False, 3)
    open_ = host(VLLM)
    assert status(verify(held, open_), BACKEND) == "mismatch"
    # What is typed here is seen, whatever the environment hides.
    other = host({**VLLM, **dict.fromkeys(pinned, "TRITON_ATTN")}, {BACKEND: "TRITON_ATTN"}, hidden=True)
    assert status(verify(held, other), BACKEND) == "mismatch"
    came = verify(lock(VLLM), host(VLLM, {BACKEND: "TRITON_ATTN"}, hidden=True))
    assert status(came, BACKEND) == "mismatch"
    # Another setting is given by no variable, and another engine does not overwrite its environment.
    assert status(verify(lock(VLLM, {SEQUENCES: 8}), host(VLLM, hidden=True)), SEQUENCES) == "mismatch"
    sglang = release("0.5.23", "sglang")
    assert status(verify(lock(sglang, {BACKEND: "fa3"}), host(sglang, hidden=True)), BACKEND) == "mismatch"


@pytest.mark.parametrize(("policy", "code"), [(Policy.EXACT, 1), (Policy.REPORT, 0), (Policy.IGNORE, 0)])
def test_what_was_typed_otherwise_is_judged_by_its_policy(policy: Policy, code: int) -> None:
    held = lock(VLLM, {SEQUENCES: 8}, policy={SEQUENCES: policy})
    report = verify(held, host(VLLM, {SEQUENCES: 9}))
    assert report.exit_code == code
    judged = result(report, SEQUENCES)
    assert judged is not None
    assert judged.policy is policy
    assert judged.status is (Status.IGNORED if policy is Policy.IGNORE else Status.MISMATCH)


def test_a_waiver_names_what_was_typed_otherwise() -> None:
    waiver = Waiver(fact=SEQUENCES, found=9, reason="a larger node")
    for typed, expected in ((9, "waived"), (10, "mismatch")):
        report = verify(lock(VLLM, {SEQUENCES: 8}, waive=(waiver,)), host(VLLM, {SEQUENCES: typed}))
        assert status(report, SEQUENCES) == expected


def test_a_setting_that_cannot_be_told_hides_none_behind_it() -> None:
    held = lock(VLLM, {BACKEND: "FLASHINFER", "serve.args.last": 1})
    report = verify(held, host(VLLM, hidden=True))
    assert (status(report, BACKEND), status(report, "serve.args.last")) == ("unknown", "mismatch")


def test_what_is_no_setting_is_not_compared_as_typed() -> None:
    for key in ("host.driver", "packages.torch", "env.HF_HOME", "engine.build"):
        report = verify(lock(VLLM), host(VLLM, {key: "1"}))
        assert status(report, key) == "not named"


# --- seen, not pinned


@pytest.mark.parametrize("by", By)
def test_only_a_witness_shows_what_a_lock_leaves_open(by: By) -> None:
    held = lock(VLLM, unpinned={("serve", "max_num_seqs"): "later", ("kernels",): "later", ("host",): "later"})
    shown = {SEQUENCES: 8, "kernels.attention": "flash", "host.driver": "550", "serve.dtype": "bfloat16"}
    seen = Observation(
        readings=(*host(VLLM).readings, *(registry.seen(key, value, "GET /x", by) for key, value in shown.items()),
                  Reading(registry.fact("kernels.moe"), ABSENT, "GET /x", by)),
    )  # fmt: skip
    open_ = {each.fact.key: each.value for each in verify(held, seen).left_open}
    witness = by in (By.LIBRARY, By.WORKER, By.ENDPOINT, By.LOG)
    assert open_ == ({SEQUENCES: 8, "kernels.attention": "flash"} if witness else {})
    pinned = lock({**VLLM, SEQUENCES: 8, "kernels.attention": None}, unpinned=held.unpinned)
    assert verify(pinned, seen).left_open == ()
    chosen = verify(held, seen, skip=("kernels",)).left_open
    assert [each.fact.key for each in chosen] == ([SEQUENCES] if witness else [])


# --- a server that gave no answer


@pytest.mark.parametrize("by", By)
def test_what_only_a_rule_says_of_a_silent_server_is_not_seen(by: By) -> None:
    held = lock({**VLLM, SEQUENCES: 8})
    silent = Observation(
        readings=(*host(VLLM).readings, registry.seen(SEQUENCES, 16, "a source", by)),
        unobserved=(Unobserved(("check", "server_answers"), "it hangs"),), stage=Stage.LIVE,
    )  # fmt: skip
    judged = result(verify(held, silent), SEQUENCES)
    assert judged is not None
    if by in (By.RULE, By.DEFAULT):
        assert (judged.status, judged.seen, judged.found, judged.source) == (Status.UNKNOWN, False, None, "")
    else:
        assert (judged.status, judged.seen, judged.found, judged.source) == (Status.MISMATCH, True, 16, "a source")


def test_a_silent_server_is_unknown_unless_nobody_asks_whether_it_answers() -> None:
    held = lock(VLLM)
    silent = host(VLLM, stage=Stage.LIVE, unobserved=(Unobserved(("check", "server_answers"), "it hangs"),))
    assert verify(held, host(VLLM, stage=Stage.LIVE)).exit_code == 0
    assert verify(held, silent).exit_code == 3
    for more in ({"skip": ("check.server_answers",)}, {"skip": ("check",)}, {"only": ("engine",)}):
        assert verify(held, silent, **more).exit_code == 0  # type: ignore[arg-type]
    assert verify(held, silent, allow_unknown=("check.server_answers",)).exit_code == 0
    for policy, code in ((Policy.REPORT, 0), (Policy.IGNORE, 0), (Policy.EXACT, 3)):
        assert verify(lock(VLLM, policy={"check.server_answers": policy}), silent).exit_code == code


# --- several at once


def test_a_setting_that_is_settled_hides_none_behind_it() -> None:
    typed = {"serve.ctx_size": 2048, "serve.args.another": 1, "serve.args.last": 2}
    report = verify(lock({**LLAMA, "serve.max_model_len": 2048, "serve.args.another": 1}), host(LLAMA, typed))
    assert status(report, "serve.ctx_size") == "not named"
    assert status(report, "serve.args.last") == "mismatch"


def test_a_command_that_was_not_read_whole_lost_no_option() -> None:
    held = lock(VLLM, {SEQUENCES: 8})
    seen = host(VLLM)
    assert status(verify(held, seen), SEQUENCES) == "mismatch"
    partly = Observation(readings=seen.readings, complete=frozenset({("env",)}), stage=Stage.PREFLIGHT)
    assert status(verify(held, partly), SEQUENCES) == "not named"


def test_two_facts_of_one_argument_are_one_cause() -> None:
    facts = {"serve.max_num_seqs": (1, 2), "serve.kv_unified": (True, False)}
    held = lock({key: before for key, (before, _) in facts.items()})

    def because(*sources: str) -> dict[str, str | None]:
        readings = tuple(
            registry.seen(key, after, source, By.PROCESS)
            for (key, (_, after)), source in zip(facts.items(), sources, strict=True)
        )
        return {each.fact.key: each.because for each in verify(held, Observation(readings=readings)).results}

    assert because("argument -np", "argument -np") == {
        "serve.max_num_seqs": None,
        "serve.kv_unified": "serve.max_num_seqs",
    }
    assert because("argument -np", "argument -kvu") == dict.fromkeys(facts)
