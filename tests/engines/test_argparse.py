"""Our reading of a command line against Python's own argparse."""

from __future__ import annotations

import argparse
import contextlib
import io
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockllm.engines.kernel.argparse import Option, Take, parse, table
from lockllm.engines.kernel.values import Kind, human, leaves, secret_name, unresolved, without_userinfo

OPTIONS = (
    Option(name="tensor_parallel_size", flags=("--tensor-parallel-size", "-tp"), kind=Kind.INT),
    Option(name="tensor_path", flags=("--tensor-path",)),
    Option(name="quantization", flags=("--quantization", "-q")),
    Option(name="nnodes", flags=("--nnodes", "-n"), kind=Kind.INT),
    Option(name="enforce_eager", flags=("--enforce-eager",), off=("--no-enforce-eager",), take=Take.BOTH),
    Option(name="headless", flags=("--headless",), take=Take.SWITCH),
    Option(name="served_model_name", flags=("--served-model-name",), take=Take.MANY),
    Option(name="sizes", flags=("--sizes",), take=Take.MANY, kind=Kind.INT),
    Option(name="hf_token", flags=("--hf-token",), take=Take.MAYBE),
    Option(name="middleware", flags=("--middleware",), take=Take.APPEND),
)
TABLE = table(OPTIONS)


def reference() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    parser.add_argument("model", nargs="?")
    for option in OPTIONS:
        more: dict[str, Any] = {}
        if option.take is Take.BOTH:
            more["action"] = argparse.BooleanOptionalAction
        elif option.take is Take.SWITCH:
            more["action"] = "store_true"
        elif option.take is Take.APPEND:
            more["action"] = "append"
        elif option.take is Take.MANY:
            more["nargs"] = "+"
        elif option.take is Take.MAYBE:
            more |= {"nargs": "?", "const": True}
        if option.kind is Kind.INT:
            more["type"] = int
        parser.add_argument(*option.flags, dest=option.name, default=None, **more)
    return parser


WORDS = st.sampled_from(
    [
        "--tensor-parallel-size", "--tensor-parallel-size=2", "-tp", "-tp=2", "-tp2", "--tensor-par", "--tensor-pa", "--tensor",
        "-q", "-qawq", "-q=awq", "-n", "-n2", "--enforce-eager", "--no-enforce-eager", "--enforce-eager=1", "--no-enf",
        "--headless", "--served-model-name", "--served", "--sizes", "--sizes=3", "--hf-token", "--hf-token=x", "--middleware",
        "--middleware=a", "2", "3", "-1", "x", "a b", "-", "", "--nothing", "--nothing=1", "-t", "-x", "- y", "--x y",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(WORDS, max_size=7))
def test_a_command_line_means_what_argparse_takes_it_for(argv: list[str]) -> None:
    said = parse(argv, TABLE)
    stray = said.positionals[1:]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            wanted = vars(reference().parse_args(argv))
    except (argparse.ArgumentError, SystemExit):
        assert said.problems or stray or _positional_runs(argv) > 1
        return
    assert said.problems == ()
    found = {name: word.value for name, word in said.last().items()}
    appended = [each for word in said.words if word.name == "middleware" for each in word.value]
    found |= {"middleware": appended} if appended else {}
    found = {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
    model = wanted.pop("model")
    assert found == {name: value for name, value in wanted.items() if value is not None}
    assert (said.positionals[0] if said.positionals else None) == model


def _positional_runs(argv: list[str]) -> int:
    """argparse fills an optional positional by the first run of arguments; a second run has no place."""
    return len(parse(argv, TABLE).positionals) + 1 if "" in argv or "-" in argv else 0


def test_human_numbers_are_decimal_in_lower_and_binary_in_upper_case() -> None:
    assert [human(text) for text in ("1k", "1K", "25.6k", "2M", "2m", "3")] == [1000, 1024, 25600, 2**21, 2_000_000, 3]


def test_leaves_carry_their_path() -> None:
    assert dict(leaves({"a": {"b": 1, "c": {}}, "d": [1, {"e": 2}]})) == {
        ("a", "b"): 1, ("a", "c"): "{}", ("d",): [1, {"e": 2}],
    }  # fmt: skip


def test_names_of_secrets_are_told_from_counts_of_tokens() -> None:
    secret = ("api_key", "hf_token", "auth_token", "password", "client_secret", "ssl_keyfile_password")
    plain = ("max_num_batched_tokens", "tokenizer", "token_ids", "eos_token", "max_prompt_adapter_token", "tokens_only")
    assert all(map(secret_name, secret))
    assert not any(map(secret_name, plain))


def test_placeholders_and_passwords_are_seen() -> None:
    assert all(map(unresolved, ("$TP", "${TP}", "$(TP)", "{{ .Model }}", "<model name>")))
    assert not any(map(unresolved, ("a$", "{'a': 1}", "x<y", 3)))
    taken: list[str] = []
    assert without_userinfo(["http://me:pw@host/x", "plain"], taken) == ("http://host/x", "plain")
    assert taken == ["me:pw"]
