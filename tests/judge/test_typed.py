"""Given against given: what was typed when the lock was made, and what is typed on the host."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lockllm import engines
from lockllm.documents.lock import EDITION, Lock
from lockllm.engines import Context
from lockllm.engines.kernel.typed import typed
from lockllm.facts import keys, registry
from lockllm.facts.fact import Stage
from lockllm.facts.observation import ABSENT, TYPED_WHOLE, By, Observation, Reading, values
from lockllm.judge.report import Report
from lockllm.judge.verify import verify
from lockllm.output import text

VLLM = {
    "engine.name": "vllm",
    "engine.version": "0.32.0",
    "host.platform": "cpu",
    "checkpoint.architecture": "Qwen2ForCausalLM",
}
BACKEND = keys.parse("serve.attention_backend")


def host(
    *more: str, facts: dict[str, Any] = VLLM, command: tuple[str, ...] = ("vllm", "serve", "m"), env: Any = None
) -> Observation:
    """A host whose planned command line was read."""
    engine = engines.load(str(facts["engine.name"]))
    version = str(facts["engine.version"])
    form = engine.recognise([*command, *more])
    assert form is not None
    said = engine.given(form, env or {}, {}, version, False)
    held = {keys.parse(key): value for key, value in facts.items()}
    context = Context(version=version, checkpoint=held, host=held)
    told = [each for each in engine.effective(said, context) if isinstance(each, Reading)]
    return Observation(
        readings=(*(registry.seen(key, value, "seen", By.FILE) for key, value in facts.items()), *said.readings, *told),
        complete=frozenset({("env",), ("serve", "args"), ("serve", "chat_template_kwargs"), TYPED_WHOLE}), asked=tuple(typed(said)),
        stage=Stage.PREFLIGHT,
    )  # fmt: skip


def locked(seen: Observation, edition: int = EDITION) -> Lock:
    held = {path: value for path, value in values(seen.readings).items() if registry.find(path).lockable}
    asked = {each.fact.path: registry.dump(each.fact, each.value) for each in seen.asked if each.fact.path == BACKEND}
    return Lock(
        values={path: value for path, value in held.items() if value is not ABSENT}, asked=asked if edition > 1 else {},
        absent=frozenset(path for path, value in held.items() if value is ABSENT), edition=edition,
    )  # fmt: skip


def differing(report: Report) -> dict[str, tuple[Any, Any]]:
    return {each.fact.key: (each.expected, each.found) for each in report.results if each.status.value == "mismatch"}


@pytest.mark.parametrize(
    "words",
    [
        ("--logprobs-mode", "raw_logprobs"), ("--scheduling-policy", "fcfs"), ("--no-enable-lora",), ("--block-size", "128"),
        ("--max-logprobs", "20"), ("--distributed-executor-backend", "mp"), ("--prefix-caching-hash-algo", "sha256"),
        ("--hf-overrides", "{}"), ("--limit-mm-per-prompt", "{}"), ("--response-role", "assistant"), ("--optimization-level", "2"),
        ("-O2",), ("--no-async-scheduling",), ("--runner", "generate"), ("--runner", "auto"), ("--convert", "none"),
        ("--api-server-count", "2"), ("--numa-bind",), ("--seed", "0"), ("--dtype", "auto"), ("-tp", "1"), ("--attention-backend", "auto"),
        ("--compilation-config", "{}"), ("--kernel-config", '{"moe_backend": "auto"}'), ("--mm-processor-kwargs", "{}"),
        ("--middleware", "lockllm.asgi.Fingerprint"), ("--lora-dtype", "auto"), ("--no-enable-sleep-mode",),
    ],
)  # fmt: skip
def test_an_option_typed_with_the_value_that_it_has_anyway_is_no_difference(words: tuple[str, ...]) -> None:
    plain, spelled = host(), host(*words)
    assert differing(verify(locked(plain), spelled)) == {}
    assert differing(verify(locked(spelled), plain)) == {}
    assert verify(locked(plain), spelled).exit_code == 0


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("--max-logprobs", "21"), "max_logprobs"), (("--scheduling-policy", "priority"), "scheduling_policy"),
        (("--enable-lora",), "enable_lora"), (("--block-size", "64"), "block_size"), (("--runner", "pooling"), "runner"),
        (("--hf-overrides", '{"a": 1}'), "hf_overrides.a"), (("--optimization-level", "3"), "optimization_level"),
        (("--middleware", "my.mod.rewrite"), "middleware"), (("--async-scheduling",), "async_scheduling"),
        (("--anthropic-disabled-thinking-effort", "high"), "anthropic_disabled_thinking_effort"),
        (("--distributed-executor-backend", "ray"), "distributed_executor_backend"),
    ],
)  # fmt: skip
def test_an_option_typed_otherwise_is_told_when_it_comes_and_when_it_goes(words: tuple[str, ...], key: str) -> None:
    plain, spelled = host(), host(*words)
    came, went = verify(locked(plain), spelled), verify(locked(spelled), plain)
    assert f"serve.args.{key}" in differing(came)
    assert f"serve.args.{key}" in differing(went)
    assert (came.exit_code, went.exit_code) == (1, 1)


def test_middleware_counts_in_its_order() -> None:
    one, other = host("--middleware", "a.A", "--middleware", "b.B"), host("--middleware", "b.B", "--middleware", "a.A")
    assert differing(verify(locked(one), one)) == {}
    assert differing(verify(locked(one), other)) == {"serve.args.middleware": (["a.A", "b.B"], ["b.B", "a.A"])}


@pytest.mark.parametrize(
    ("before", "after", "expected", "found"),
    [
        ((), ("TRITON_ATTN",), "not given", "--attention-backend TRITON_ATTN"),
        (("FLASHINFER",), (), "FLASHINFER", "not given"),
    ],
)
def test_a_setting_that_only_one_side_types_differs_though_its_value_is_not_known(
    before: tuple[str, ...], after: tuple[str, ...], expected: str, found: str
) -> None:
    lock, seen = locked(host(*_backend(before))), host(*_backend(after))
    report = verify(lock, seen)
    assert differing(report) == {"serve.attention_backend": (expected, found)}
    assert report.exit_code == 1
    page = text.report(report)
    assert f"expected  {expected}" in page
    assert found in page


def _backend(words: tuple[str, ...]) -> tuple[str, ...]:
    return ("--attention-backend", *words) if words else ()


def test_a_variable_that_gives_a_setting_is_typed_too() -> None:
    old = {**VLLM, "engine.version": "0.10.2"}
    lock = locked(host(facts=old))
    report = verify(lock, host(facts=old, env={"VLLM_ATTENTION_BACKEND": "FLASHINFER"}))
    assert differing(report) == {"serve.attention_backend": ("not given", "FLASHINFER")}


def test_a_lock_of_the_first_edition_is_not_held_against_what_was_typed() -> None:
    lock = locked(host(), edition=1)
    assert differing(verify(lock, host("--attention-backend", "TRITON_ATTN", "--middleware", "my.mod.rewrite"))) == {}
    assert set(differing(verify(lock, host("--max-logprobs", "21")))) == {"serve.args.max_logprobs"}


def test_a_command_that_was_not_read_says_nothing_of_what_was_typed() -> None:
    lock = locked(host("--attention-backend", "FLASHINFER"))
    unread = msgspec.structs.replace(host(), complete=frozenset())
    assert "serve.attention_backend" not in differing(verify(lock, unread))


def test_template_arguments_and_speculation_that_went_are_told() -> None:
    words = ("--default-chat-template-kwargs", '{"enable_thinking": false}', "--speculative-config",
             '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}')  # fmt: skip
    gone = differing(verify(locked(host(*words)), host()))
    assert {"serve.chat_template_kwargs.enable_thinking", "serve.speculative.num_speculative_tokens",
            "serve.speculative.prompt_lookup_max"} <= set(gone)  # fmt: skip


def test_the_default_of_another_release_is_another_value() -> None:
    """`--prefix-caching-hash-algo` was builtin until 0.10.2."""
    old = {**VLLM, "engine.version": "0.9.2"}
    words = ("--prefix-caching-hash-algo", "sha256")
    assert set(differing(verify(locked(host(facts=old)), host(*words, facts=old)))) == {
        "serve.args.prefix_caching_hash_algo"
    }


def test_constants_of_an_installed_release_that_no_table_has_count_where_it_is_the_locked_one() -> None:
    new = {**VLLM, "engine.version": "0.99.0"}
    stated = registry.seen("serve.args.max_logprobs", 20, "vllm/config/model.py: max_logprobs", By.DEFAULT)
    seen = host("--max-logprobs", "20", facts=new)
    lock = msgspec.structs.replace(locked(host(facts=new)), unpinned={("serve", "dtype"): "newer than what was read"})
    assert set(differing(verify(lock, seen))) == {"serve.args.max_logprobs"}
    assert differing(verify(lock, msgspec.structs.replace(seen, asked=(*seen.asked, stated)))) == {}


def test_what_a_witness_shows_of_open_facts_is_listed_and_changes_no_verdict() -> None:
    lock = msgspec.structs.replace(locked(host()), unpinned={("kernels",): "only the start log shows them"})
    shown = registry.seen("kernels.fp4_gemm_runner_backend", "flashinfer_cudnn", "GET /server_info: x", By.ENDPOINT)
    seen = host()
    report = verify(lock, msgspec.structs.replace(seen, readings=(*seen.readings, shown)))
    assert report.exit_code == 0
    assert [(each.fact.key, each.value) for each in report.left_open] == [
        ("kernels.fp4_gemm_runner_backend", "flashinfer_cudnn")
    ]
    assert "kernels.fp4_gemm_runner_backend" in text.report(report)


def test_a_value_that_only_a_running_server_showed_is_not_due_before_one_runs() -> None:
    lock = locked(host())
    shown = msgspec.structs.replace(
        lock, values={**lock.values, BACKEND: "FLASH_ATTN"}, asked={BACKEND: "not given"}, edition=EDITION
    )  # fmt: skip
    assert verify(shown, host()).exit_code == 0
    assert set(differing(verify(shown, host("--attention-backend", "TRITON_ATTN")))) == {"serve.attention_backend"}


def test_a_setting_that_a_hidden_variable_may_give_is_unknown_and_not_gone() -> None:
    """vLLM overwrites its environment: VLLM_ATTENTION_BACKEND of a running server cannot be seen."""
    words = ("--attention-backend", "FLASHINFER")
    hidden = msgspec.structs.replace(host(), complete=host().complete - {("env",)})
    for lock in (locked(host(*words)), msgspec.structs.replace(locked(host()), asked={BACKEND: "FLASHINFER"})):
        report = verify(lock, hidden)
        assert (report.exit_code, differing(report)) == (3, {})


SPELLED = {
    "sglang": (("python3", "-m", "sglang.launch_server", "--model-path", "m"), "0.5.23", [
        ("--schedule-policy", "fcfs"), ("--fp4-gemm-backend", "auto"), ("--sampling-defaults", "model"), ("--tp", "1"),
        ("--watchdog-timeout", "9"), ("--stream-interval", "1"), ("--log-level", "debug"), ("--moe-runner-backend", "auto"),
        ("--kv-cache-dtype", "auto"), ("--load-balance-method", "auto"),
    ]),
    "llama.cpp": (("llama-server", "-m", "m.gguf"), "b11549", [
        ("--poll", "50"), ("--prio", "0"), ("--reasoning-budget", "-1"), ("--no-context-shift",), ("-fa", "auto"), ("-np", "-1"),
        ("--keep", "0"), ("-ctk", "f16", "-ctv", "f16"), ("--reasoning-format", "auto"), ("-c", "0"), ("--temp", "0.8"),
    ]),
    "lmdeploy": (("lmdeploy", "serve", "api_server", "m"), "0.18.0", [
        ("--backend", "turbomind"), ("--communicator", "nccl"), ("--cache-block-seq-len", "64"), ("--quant-policy", "0"),
        ("--generation-config", "auto"), ("--tp", "1"),
    ]),
    "tgi": (("text-generation-launcher", "--model-id", "m"), "3.3.7", [
        ("--max-waiting-tokens", "20"), ("--waiting-served-ratio", "0.3"), ("--max-concurrent-requests", "128"),
    ]),
    "transformers": (("transformers", "serve", "m"), "5.24.0", [
        ("--device", "cpu"), ("--device", "auto"), ("--model-timeout", "300"), ("--dtype", "auto"), ("--reasoning", "auto"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "words"), [(engine, words) for engine, (_, _, rows) in SPELLED.items() for words in rows]
)  # fmt: skip
def test_spelled_out_defaults_of_the_other_engines_are_no_difference(engine: str, words: tuple[str, ...]) -> None:
    command, version, _ = SPELLED[engine]
    facts = {**VLLM, "engine.name": engine, "engine.version": version}
    plain, spelled = host(facts=facts, command=command), host(*words, facts=facts, command=command)
    assert differing(verify(locked(plain), spelled)) == {}
    assert differing(verify(locked(spelled), plain)) == {}


def test_what_was_typed_is_no_fact_that_the_lock_holds() -> None:
    report = verify(locked(host()), host("--attention-backend", "TRITON_ATTN"))
    assert text.report(report).splitlines()[-1].startswith(f"{len(locked(host()).order)} facts pinned")
