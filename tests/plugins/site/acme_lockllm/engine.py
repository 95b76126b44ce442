"""Acme's translator: two options, one default, no endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lockllm.engines import Answer, Command, Context, Form, Given, Model, Probe
from lockllm.engines.kernel.argparse import Option, parse, table
from lockllm.engines.kernel.collect import Collect, exact, source_of
from lockllm.engines.kernel.values import Kind
from lockllm.facts.fact import Fact, Path
from lockllm.facts.observation import By, Check, Reading, Unobserved
from lockllm.facts.registry import find, seen

name = "acme"
newest = "1.2"
packages: tuple[str, ...] = ()
distributions = ("acme-engine",)
probes: tuple[Probe, ...] = ()

TABLE = table(
    [
        Option(name="max_len", flags=("--max-len",), kind=Kind.INT),
        Option(name="speed", flags=("--speed",)),
        Option(name="port", flags=("--port",), kind=Kind.INT),
    ]
)


def recognise(argv: Sequence[str]) -> Form | None:
    """Its launch forms are in the identity."""
    from lockllm.engines.launch import recognise as by_identity

    return by_identity(argv, name)


def wants_files(form: Form, env: Mapping[str, str]) -> Iterable[str]:
    """It reads no config file."""
    return ()


def given(form: Form, env: Mapping[str, str], files: Mapping[str, str], version: str | None, live: bool) -> Given:
    """What the command says."""
    told = Collect(name, live)
    parsed = parse(form.args, TABLE)
    told.refuse(exact(parsed, TABLE), True, "acme-serve")
    for word in parsed.words:
        if word.name == "max_len":
            told.set("serve.max_model_len", word.value, source_of(word))
        elif word.name == "port":
            told.operational.append("port")
            told.port = word.value
        else:
            told.kept(word.name, word.value, source_of(word))
    if parsed.positionals:
        told.model = Model(text=parsed.positionals[0], source="argument")
    return told.given()


def effective(given: Given | None, context: Context) -> Iterator[Reading | Unobserved]:
    """One default."""
    held = {reading.fact.path for reading in given.readings} if given else set()
    if ("serve", "max_model_len") not in held:
        yield seen("serve.max_model_len", 1024, f"default of Acme {context.version}", By.DEFAULT)


def omitted(path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """A kept option of one constant."""
    return ("fast",) if path == ("serve", "args", "speed") else ()


def detect(answers: Sequence[Answer]) -> bool:
    """It shows nothing."""
    return False


def from_http(answers: Sequence[Answer], context: Context) -> Iterable[Reading | Unobserved]:
    """It shows nothing."""
    return ()


def from_log(lines: Sequence[str]) -> Iterable[Reading | Unobserved]:
    """It writes nothing."""
    return ()


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """Nothing to find."""
    return ()


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """`acme-serve MODEL --max-len N`."""
    argv = ["acme-serve", str(facts.get(("checkpoint", "path"), "MODEL"))]
    for path, value in facts.items():
        if path == ("serve", "max_model_len"):
            argv += ["--max-len", str(value)]
        elif path[:2] == ("serve", "args"):
            argv += [f"--{path[2]}", str(value)]
    return Command(argv=tuple(argv))


def where(fact: Fact[Any]) -> Mapping[str, str]:
    """For `explain`."""
    return {"set_by": "--max-len", "default": "1024"} if fact == find(("serve", "max_model_len")) else {}
