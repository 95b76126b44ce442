"""From which source each group of a lock is filled, what is kept, and what a host may contradict."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm.documents import lock as locks
from lockllm.documents import spec as specs
from lockllm.documents.lock import Lock
from lockllm.documents.spec import Spec
from lockllm.facts import keys
from lockllm.facts.fact import Policy
from lockllm.facts.observation import By, Observation, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.resolve import check
from lockllm.resolve.fill import fill
from lockllm.resolve.sources import Filled, Options, Sources

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
FILE = {"size": 663, "sha256": "5" * 64}
FILES: dict[str, Any] = {
    'checkpoint.files."config.json"': FILE, "checkpoint.dtype": "bfloat16", "checkpoint.architecture": "LlamaForCausalLM",
    "checkpoint.max_position_embeddings": 2048, "quantization.method": "none", "chat_template.sha256": "c" * 64,
    "tokenizer.content_sha256": "7" * 64,
}  # fmt: skip
SPEC = '[checkpoint]\npath = "model"\n[engine]\nname = "vllm"\nversion = "0.10.2"\n'


def spec(text: str = "") -> Spec:
    return specs.read(SPEC + text)


def readings(values: dict[str, Any], by: By = By.FILE, source: str = "config.json: key") -> tuple[Reading, ...]:
    return tuple(seen(key, value, source, by) for key, value in values.items())


def host(values: dict[str, Any], **more: Any) -> Observation:
    """What a host shows that runs the engine of the spec."""
    found = {"engine.name": "vllm", "engine.version": "0.10.2", **values}
    return Observation(readings=readings(found, By.PROCESS, "seen"), observed_at="2026-05-01T00:00:00Z", **more)


def filled(
    asked: Spec | str = "", old: Lock | None = None, observation: Observation | None = None, options: Options | None = None,
    files: dict[str, Any] | None = FILES, **sources: Any,
) -> Filled:  # fmt: skip
    told = None if files is None else readings(files)
    given = {"version": "0.10.2", "files": told, "observation": observation, **sources}
    return fill(asked if isinstance(asked, Spec) else spec(asked), Sources(**given), old, options or Options())


def value(made: Filled | Lock, key: str) -> Any:
    """The locked value of a key; "absent" and "unpinned" where that is what the lock says of it."""
    lock = made.lock if isinstance(made, Filled) else made
    path = keys.parse(key)
    if path in lock.values:
        return lock.get(key)
    if path in lock.absent:
        return "absent"
    return "unpinned" if any(path[:length] in lock.unpinned for length in range(1, len(path) + 1)) else None


def told(made: Filled) -> set[str]:
    return {each.fact.key for each in made.disagreements}


OLD = filled("", observation=host({"host.gpu": H100, "host.driver": "550.54.14", "packages.torch": "2.8.0+cu128",
                                   "cuda.runtime": "12.8", "engine.build": "abc", "host.sm_count": 132})).lock  # fmt: skip


@pytest.mark.parametrize(
    ("text", "old", "observed", "machine", "gpu"),
    [
        (f'[host]\ngpu = "{A100}"\n', OLD, None, {"host.gpu": "Tesla T4"}, A100),
        ("", OLD, {"host.gpu": A100}, {"host.gpu": "Tesla T4"}, A100),
        ("", OLD, None, {"host.gpu": "Tesla T4"}, H100),
        ("", None, None, {"host.gpu": "Tesla T4"}, "Tesla T4"),
        ("", None, None, {"host.gpu": None}, "absent"),
        ("", None, None, None, "unpinned"),
    ],
    ids=["spec", "observation", "old lock", "this machine", "this machine has none", "nothing"],
)
def test_a_host_is_the_specs_the_observed_the_kept_or_this_machine(
    text: str, old: Lock | None, observed: Any, machine: Any, gpu: str
) -> None:
    seen_there = host(observed) if observed else None
    here = readings(machine) if machine is not None else None
    assert value(filled(text, old, seen_there, host=here), "host.gpu") == gpu


def test_what_was_kept_of_a_host_goes_with_its_gpu() -> None:
    made = filled(f'[host]\ngpu = "{A100}"\n', OLD)
    assert (value(made, "host.sm_count"), value(made, "host.driver")) == (None, "550.54.14")


@pytest.mark.parametrize(
    ("version", "old", "observed", "environment", "required", "torch"),
    [
        ("0.10.2", OLD, {"packages.torch": "2.9.0"}, {"packages.torch": "2.7"}, {"packages.torch": "2.6"}, "2.9.0"),
        ("0.10.2", OLD, None, {"packages.torch": "2.7"}, {"packages.torch": "2.6"}, "2.7"),
        ("0.10.2", OLD, None, None, {"packages.torch": "2.6"}, "2.8.0+cu128"),
        ("0.10.1", OLD, None, None, {"packages.torch": "2.6"}, "2.6"),
        ("0.10.1", OLD, None, None, {}, "unpinned"),
        ("0.10.2", OLD, None, {"packages.torch": None}, {}, "absent"),
    ],
    ids=["observation", "environment", "old lock", "wheel after an upgrade", "nothing", "seen to be gone"],
)
def test_packages_are_the_observed_the_installed_the_kept_or_the_wheels(
    version: str, old: Lock, observed: Any, environment: Any, required: Any, torch: str
) -> None:
    asked = specs.read(SPEC.replace("0.10.2", version))
    made = filled(
        asked, old, host(observed) if observed else None, version=version,
        environment=readings(environment, By.PACKAGE) if environment else None, required=readings(required, By.PACKAGE),
    )  # fmt: skip
    assert value(made, "packages.torch") == torch


def test_a_package_that_an_observation_saw_to_be_gone_is_not_kept() -> None:
    made = filled("", OLD, host({"packages.triton": "3.4.0"}, complete=frozenset({("packages",)})))
    assert (value(made, "packages.torch"), value(made, "packages.triton")) == (None, "3.4.0")


@pytest.mark.parametrize("key", ["engine.build", "cuda.runtime", "packages.torch"])
def test_what_hangs_on_the_engines_version_goes_with_it(key: str) -> None:
    made = filled(specs.read(SPEC.replace("0.10.2", "0.11.0")), OLD, version="0.11.0")
    assert value(made, key) in (None, "unpinned")
    assert value(filled("", OLD), key) == value(OLD, key)


@pytest.mark.parametrize(
    ("text", "key", "expected", "via"),
    [
        ('[serve]\ndtype = "float16"\n', "serve.dtype", "float16", "llm.toml"),
        ("", "serve.dtype", "bfloat16", "rule"),
        ('[serve]\ndtype = "auto"\n', "serve.dtype", "bfloat16", "rule"),
        ("", "serve.tensor_parallel_size", 1, "default"),
        ("[sampling]\ntemperature = 0\n", "sampling.temperature", 0, "llm.toml"),
        ("", "sampling.temperature", 1, "default"),
    ],
)
def test_what_is_served_is_the_specs_or_the_engines_rule(text: str, key: str, expected: Any, via: str) -> None:
    made = filled(text)
    assert (value(made, key), made.lock.via.get(keys.parse(key))) == (expected, via)


def test_what_is_served_is_never_kept() -> None:
    old = filled('[serve]\ndtype = "float16"\nmax_num_seqs = 7\nargs.some_flag = 3\nctx_size = 5\n').lock
    again = filled("", old).lock
    assert again == filled("").lock


def test_an_observation_fills_nothing_that_is_served() -> None:
    made = filled("", None, host({"serve.attention_backend": "FLASHINFER"}))
    assert value(made, "serve.attention_backend") == "unpinned"


@pytest.mark.parametrize(
    ("text", "observed", "facts"),
    [
        ('[serve]\ndtype = "bfloat16"\n', {"serve.dtype": "float16"}, {"serve.dtype"}),
        (f'[host]\ngpu = "{H100}"\n', {"host.gpu": A100}, {"host.gpu"}),
        ('[host]\ndriver = ">=550"\n', {"host.driver": "535.1"}, {"host.driver"}),
        ('[host]\ndriver = ">=550"\n', {"host.driver": "570.1"}, set()),
        ("", {'checkpoint.files."config.json"': {"size": 663, "sha256": "6" * 64}}, {'checkpoint.files."config.json"'}),
        ("", {'checkpoint.files."extra.json"': FILE}, {'checkpoint.files."extra.json"'}),
        ("", {"serve.args.some_flag": True}, {"serve.args.some_flag"}),
        ("", {"serve.tool_call_parser": "hermes"}, {"serve.tool_call_parser"}),
        ('[serve]\ntool_call_parser = "hermes"\n', {"serve.tool_call_parser": None}, {"serve.tool_call_parser"}),
        ("", {"chat_template.sha256": "d" * 64}, {"chat_template.sha256"}),
        ("", {"sampling.temperature": 0.6}, {"sampling.temperature"}),
        ('[policy]\n"sampling.temperature" = "report"\n', {"sampling.temperature": 0.6}, set()),
        ('[[waive]]\nfact = "sampling.temperature"\nfound = 0.6\nreason = "known"\n', {"sampling.temperature": 0.6}, set()),
        ('[[waive]]\nfact = "sampling.temperature"\nfound = 0.6\nreason = "known"\nuntil = 2026-04-30\n',
         {"sampling.temperature": 0.6}, {"sampling.temperature"}),
    ],
)  # fmt: skip
def test_a_host_that_contradicts_the_spec_is_told(text: str, observed: Any, facts: set[str]) -> None:
    assert told(filled(text, None, host(observed))) == facts


def test_what_is_accepted_is_locked_with_all_that_follows_from_it() -> None:
    seen_there = host({"serve.dtype": "float16", "serve.kv_cache_dtype": "float16", "serve.seed": 7})
    made = filled("", None, seen_there, Options(accept_observed=("serve.dtype",)))
    assert told(made) == {"serve.seed"}
    assert (value(made, "serve.dtype"), value(made, "serve.kv_cache_dtype")) == ("float16", "float16")
    assert made.lock.via[("serve", "dtype")] == "observation"
    assert made.warnings[0] == (
        'serve.dtype is as the host shows it; to keep it, lock with --write, or write dtype = "float16" under [serve] of llm.toml'
    )


def test_what_the_host_lacks_can_be_accepted_too() -> None:
    made = filled(
        '[serve]\nreasoning_parser = "qwen3"\n', None, host({"serve.reasoning_parser": None}),
        Options(accept_observed=("serve.*",)),
    )  # fmt: skip
    assert (told(made), value(made, "serve.reasoning_parser")) == (set(), "absent")


def test_what_a_whole_family_lacks_can_be_accepted_too() -> None:
    bare = host({}, complete=frozenset({("env",)}))
    text = '[env]\nNCCL_ALGO = "Tree"\n'
    assert told(filled(text, None, bare)) == {"env.NCCL_ALGO"}
    made = filled(text, None, bare, Options(accept_observed=("env.NCCL_ALGO",)))
    assert (told(made), value(made, "env.NCCL_ALGO")) == (set(), "absent")


@pytest.mark.parametrize(
    ("text", "pin", "expected"),
    [
        ("", (), "unpinned"),
        ("", ("kernels.*",), "FLASH_ATTN"),
        ('[kernels]\nattention = "XFORMERS"\n', ("kernels.*",), "XFORMERS"),
    ],
)
def test_kernels_are_the_specs_or_pinned_on_request(text: str, pin: tuple[str, ...], expected: str) -> None:
    made = filled(text, None, host({"kernels.attention": "FLASH_ATTN"}), Options(pin=pin))
    assert value(made, "kernels.attention") == expected


@pytest.mark.parametrize(
    "key", ["kernels.attention", "engine.image_digest", "env.VLLM_USE_V1", "libraries.libnccl.version"]
)
def test_a_pin_stays_until_something_asks_for_it(key: str) -> None:
    pinned = filled("", None, host({key: "x"}), Options(pin=(key,))).lock
    assert value(pinned, key) == "x"
    assert filled("", pinned).lock.values == pinned.values
    assert check(spec(), locks.read(locks.write(pinned))) == []
    for options in (Options(upgrade=True), Options(upgrade_facts=(key,))):
        assert value(filled("", pinned, None, options), key) in (None, "unpinned")


def test_a_pin_of_what_is_served_is_told_how_to_keep() -> None:
    made = filled("", None, host({"serve.attention_backend": "FLASHINFER"}), Options(pin=("serve.*",)))
    assert value(made, "serve.attention_backend") == "FLASHINFER"
    assert made.warnings == (
        (
            "serve.attention_backend is as the host shows it; to keep it, lock with --write, or "
            'write attention_backend = "FLASHINFER" under [serve] of llm.toml'
        ),
    )
    assert check(spec(), made.lock) == ["serve.attention_backend"]


def test_probes_are_rendered_here_or_observed_or_kept() -> None:
    probes = {"prompt_probes.version": 1, "prompt_probes.plain.text": "1" * 64}
    other = {"prompt_probes.version": 1, "prompt_probes.plain.text": "2" * 64}
    assert value(filled(files={**FILES, **probes}), "prompt_probes.plain.text") == "1" * 64
    assert told(filled(files={**FILES, **probes}, observation=host(other))) == {"prompt_probes.plain.text"}
    observed = filled(observation=host(other)).lock
    assert value(observed, "prompt_probes.plain.text") == "2" * 64
    assert filled("", observed).lock.values == observed.values
    moved = filled("", observed, files={**FILES, "chat_template.sha256": "e" * 64})
    assert value(moved, "prompt_probes.plain.text") is None


def test_probes_of_another_version_are_not_mixed() -> None:
    mine = {"prompt_probes.version": 2, "prompt_probes.plain.text": "1" * 64}
    theirs = {"prompt_probes.version": 1, "prompt_probes.old.text": "2" * 64}
    made = filled(files={**FILES, **mine}, observation=host(theirs))
    assert value(made, "prompt_probes.old.text") is None


def test_upgrading_one_fact_moves_it_alone() -> None:
    newer = readings({"packages.torch": "2.9.0", "packages.triton": "3.5.0"}, By.PACKAGE)
    old = filled("", None, host({"packages.torch": "2.8.0", "packages.triton": "3.4.0"})).lock
    kept = filled("", old, required=newer)
    assert (value(kept, "packages.torch"), value(kept, "packages.triton")) == ("2.8.0", "3.4.0")
    one = filled("", old, None, Options(upgrade_facts=("packages.torch",)), required=newer)
    assert (value(one, "packages.torch"), value(one, "packages.triton")) == ("2.9.0", "3.4.0")
    every = filled("", old, None, Options(upgrade=True), required=newer)
    assert (value(every, "packages.torch"), value(every, "packages.triton")) == ("2.9.0", "3.5.0")


def test_filling_again_changes_nothing() -> None:
    assert filled("", OLD).lock == OLD
    assert filled("", filled("", OLD).lock).lock == OLD


def test_a_pin_outside_the_range_of_the_spec_is_dropped() -> None:
    made = filled('[host]\ndriver = ">=570"\n', OLD)
    assert value(made, "host.driver") == ">=570"
    assert value(filled('[host]\ndriver = ">=550"\n', OLD), "host.driver") == "550.54.14"


@pytest.mark.parametrize(
    ("text", "key", "policy"),
    [
        ("", "host.driver", None),
        ('[host]\ndriver = ">=550"\n', "host.driver", Policy.COMPATIBLE),
        ('[host]\ndriver = ">=550"\n[policy]\n"host.driver" = "exact"\n', "host.driver", Policy.EXACT),
        ("", "host.gpu_product", Policy.REPORT),
        ("", "check.dtype_declared", Policy.REPORT),
        ('[policy]\n"host.*" = "exact"\n', "host.gpu_product", None),
        ('[policy]\n"check.*" = "exact"\n', "check.dtype_declared", None),
    ],
)
def test_every_policy_that_is_not_exact_is_written_unless_the_spec_says_otherwise(
    text: str, key: str, policy: Policy | None
) -> None:
    made = filled(text, None, host({"host.driver": "550.54.14", "host.gpu_product": H100}))
    assert made.lock.policy.get(key) is policy


def test_a_fact_of_a_newer_release_stays_as_it_stands() -> None:
    text = locks.write(OLD) + '\n[zukunft]\nsome.key = [1, { a = "b" }]\n'
    old = locks.read(text)
    again = locks.write(filled("", old).lock)
    assert 'some.key = [1, { a = "b" }]' in again
    assert check(spec(), locks.read(again)) == []


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        ("", []),
        ("[serve]\nmax_num_seqs = 7\n", ["serve.max_num_seqs"]),
        ('[policy]\n"host.*" = "ignore"\n', ['policy."host.*"']),
        ('[host]\ndriver = ">=570"\n', ["host.driver", 'policy."host.driver"', 'requires."host.driver"']),
        ('[host]\ndriver = ">=550"\n', ['policy."host.driver"', 'requires."host.driver"']),
        (f'[host]\ngpu = "{A100}"\n', ["serve.max_num_seqs", "serve.max_num_batched_tokens", "host.gpu", "host.sm_count"]),
        ('[[waive]]\nfact = "serve.dtype"\nfound = "float16"\nreason = "x"\n', ["waive.\"serve.dtype\".float16"]),
    ],
)  # fmt: skip
def test_checking_names_what_the_spec_would_move(text: str, stale: list[str]) -> None:
    assert check(spec(text), OLD) == stale


@pytest.mark.parametrize(
    ("before", "after", "stale"),
    [
        ("0.10.2", ">=0.10,<0.11", []),
        ("0.10.2", "0.11.0", ["engine.version"]),
        ('"vllm"', '"sglang"', ["engine.name"]),
        ('path = "model"', 'repo = "a/b"', ["checkpoint.repo"]),
        ('path = "model"', 'path = "model"\ninclude = ["*.json"]', ["checkpoint.files", "checkpoint.include"]),
    ],
)
def test_checking_names_a_moved_engine_or_checkpoint(before: str, after: str, stale: list[str]) -> None:
    found = check(specs.read(SPEC.replace(before, after)), OLD)
    assert [key for key in found if not key.startswith("requires.")] == stale


def test_checking_tells_a_path_that_replaced_a_repository() -> None:
    repo = specs.read(SPEC.replace('path = "model"', 'repo = "a/b"\nrevision = "main"'))
    old = filled(repo, commit="a" * 40).lock
    assert check(repo, old) == []
    assert check(spec(), old) == ["checkpoint.repo", "checkpoint.revision", "checkpoint.commit"]


def test_a_reason_that_cannot_be_pinned_is_kept_with_its_fact() -> None:
    made = filled("", unobserved=(Unobserved(("prompt_probes",), "llama.cpp renders by itself"),))
    assert made.lock.unpinned[("prompt_probes",)] == "llama.cpp renders by itself"


def test_what_only_the_typing_tells_stands_in_asked() -> None:
    made = filled('[serve]\nattention_backend = "FLASHINFER"\ndtype = "bfloat16"\nseed = 7\n').lock
    assert made.asked == {("serve", "attention_backend"): "FLASHINFER"}
    assert check(spec('[serve]\nattention_backend = "FLASHINFER"\ndtype = "bfloat16"\nseed = 7\n'), made) == []


def test_what_the_observed_host_types_is_kept_until_it_is_looked_at_again() -> None:
    typed = (seen("serve.attention_backend", "auto", "given as auto", By.PROCESS),)
    made = filled("", observation=host({}, asked=typed)).lock
    assert made.asked == {("serve", "attention_backend"): "auto"}
    assert filled("", old=made).lock.asked == made.asked
    assert check(spec(), made) == []


def test_a_key_that_left_the_spec_is_typed_no_more() -> None:
    before = filled('[serve]\nattention_backend = "FLASHINFER"\n').lock
    assert filled("", old=before).lock.asked == {}


def test_kernels_and_settings_that_a_running_server_shows_are_pinned_and_kept() -> None:
    shown = (
        seen("serve.attention_backend", "FLASH_ATTN", "GET /server_info", By.ENDPOINT),
        seen("kernels.fp4_gemm_runner_backend", "auto", "GET /server_info", By.ENDPOINT),
    )
    looked = host({})
    looked = Observation(readings=(*looked.readings, *shown), observed_at=looked.observed_at)
    made = filled("", observation=looked).lock
    assert (value(made, "serve.attention_backend"), value(made, "kernels.fp4_gemm_runner_backend")) == (
        "FLASH_ATTN",
        "auto",
    )
    assert made.asked == {("serve", "attention_backend"): "not given"}
    again = filled("", old=made).lock
    assert (value(again, "serve.attention_backend"), again.asked) == ("FLASH_ATTN", made.asked)
    assert check(spec(), made) == []
