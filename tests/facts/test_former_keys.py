"""A fact that got a name of its own: what older documents hold under its former key is judged as today's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RENAMED = """
import json, sys
import msgspec
from lockllm.facts import serve
serve.SEED = msgspec.structs.replace(serve.SEED, formerly=("serve.args.random_seed", "sampling.engine_seed"))
from lockllm.documents import lock, observation, spec
from lockllm.facts import registry
from lockllm.facts.fact import Policy
from lockllm.judge.diff import diff
from lockllm.judge.policy import Policies
from lockllm.judge.verify import verify

def text(name):
    with open(name) as file:
        return file.read()
"""
"""A release in which `serve.seed` had two other names before: one in an open family, one in another group."""
JUDGE = """
for locked, seen in json.load(sys.stdin):
    report = verify(lock.read(text(locked)), observation.read(text(seen).encode()))
    results = [(each.fact.key, each.status.value, each.policy.value, each.expected, each.found, each.source, each.reason, each.fix)
               for each in report.results]
    print(json.dumps([report.exit_code, report.warnings, results]))
"""
DIFF = """
for one, other in json.load(sys.stdin):
    print(json.dumps([each.fact.key for each in diff(lock.read(text(one)), lock.read(text(other))).changes]))
"""
POLICY = """
for table in json.load(sys.stdin):
    print(Policies({glob: Policy(word) for glob, word in table.items()}, 1).of(registry.fact("serve.seed")).value)
"""
NOW = "serve.seed"
FORMER = ("serve.args.random_seed", "sampling.engine_seed")
OLD_LOCK = """\
lock_version = 1
edition = {edition}
spec = "llm.toml"
facts = {facts}
accepted = ["KEY"]

[engine]
name = "vllm"

[serve]
dtype = "bfloat16"
{more}"""


def run(folder: Path, script: str, given: Any = None) -> list[str]:
    """The lines that a script prints in that release."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", RENAMED + script], cwd=folder, input=json.dumps(given), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


def observation(**facts: Any) -> str:
    held = {"engine.name": "vllm", "serve.dtype": "bfloat16", **facts}
    return json.dumps(
        {
            "observation_version": 1,
            "facts": {key: [{"value": value, "source": "here", "by": "process"}] for key, value in held.items()},
            "complete": ["serve.args", "serve.speculative", "env"],
            "asked": {
                key: [{"value": value, "source": "argument --seed", "by": "process"}] for key, value in facts.items()
            },
            "unobserved": {} if facts else {"KEY": {"reason": "asleep", "fix": "wake it"}},
        }
    )


GLOB = "a policy of every fact"
VALUE = "\n[KEY_TABLE]\nKEY_NAME = 3  # via argument --seed\n"
LOCKS = {
    "a value": VALUE,
    "a value that was typed": VALUE + '\n[asked]\n"KEY" = 3\n',
    "a policy": VALUE + '\n[policy]\n"KEY" = "report"\n',
    GLOB: VALUE + '\n[policy]\n"*" = "report"\n',
    "a waiver": VALUE + '\n[[waive]]\nfact = "KEY"\nfound = 4\nreason = "spare"\n',
    "an absent fact": '\n[absent]\nKEY_GROUP = ["KEY_REST"]\n',
    "an open fact": '\n[unpinned]\n"KEY" = "later"\n',
    "a typed setting": '\n[asked]\n"KEY" = 3\n',
}  # fmt: skip


def lock(key: str, what: str, edition: int = 2) -> str:
    text = OLD_LOCK.format(edition=edition, facts=2, more=LOCKS[what]).replace("KEY_TABLE", key.rpartition(".")[0])
    group, _, rest = key.partition(".")
    text = text.replace("KEY_NAME", key.rpartition(".")[2]).replace("KEY_REST", rest).replace("KEY_GROUP", group)
    # A table stands once in a document.
    table = f"\n[{key.rpartition('.')[0]}]\n"
    if table == "\n[serve]\n" and text.count(table) > 1:
        head, line = text.split(VALUE.replace("KEY_TABLE", "serve").replace("KEY_NAME", "seed"))
        text = head.replace('dtype = "bfloat16"\n', 'dtype = "bfloat16"\nseed = 3  # via argument --seed\n') + line
    return text.replace("KEY", key)


@pytest.mark.parametrize("what", LOCKS)
def test_an_old_lock_is_judged_as_if_it_held_todays_key(what: str, tmp_path: Path) -> None:
    hosts = {
        "equal": observation(**{"serve.seed": 3}), "other": observation(**{"serve.seed": 4}),
        "old": observation(**{FORMER[0]: 4}), "older": observation(**{FORMER[1]: 4}), "unseen": observation(),
    }  # fmt: skip
    for key in (NOW, *FORMER):
        (tmp_path / f"{key}.lock").write_text(lock(key, what, edition=1 if what == GLOB else 2))
        for name, seen in hosts.items():
            (tmp_path / f"{key} {name}.json").write_text(seen.replace("KEY", key))
    pairs = [(f"{key}.lock", f"{key} {name}.json") for key in (NOW, *FORMER) for name in hosts]
    lines = [json.loads(line) for line in run(tmp_path, JUDGE, pairs)]
    today, *older = (lines[start : start + len(hosts)] for start in range(0, len(lines), len(hosts)))
    assert older == [today, today]
    equal, other, old, oldest, _ = today
    assert [each[0] for each in (other, old, oldest)] == [other[0]] * 3
    statuses = {key: status for key, status, *_ in other[2]}
    assert statuses[NOW] == ("waived" if what == "a waiver" else "mismatch")
    without = (
        "an absent fact",
        "an open fact",
        "a typed setting",
    )  # no value is locked, of a family that is listed whole
    assert equal[0] == (1 if what in without else 0)
    changes = [json.loads(line) for line in run(tmp_path, DIFF, [(f"{key}.lock", f"{NOW}.lock") for key in FORMER])]
    groups = {"a policy": ["policy"], "a waiver": ["waive"]}.get(what, [])
    assert [{each.partition(".")[0] for each in keys} for keys in changes] == [set(groups)] * 2


@pytest.mark.parametrize("policy", ["report", "ignore"])
def test_the_more_precise_line_holds_whichever_key_it_names(policy: str, tmp_path: Path) -> None:
    tables = [
        {"serve.args.random_seed": policy, "*": "exact"}, {"serve.seed": "exact", "serve.args.*": policy},
        {"serve.args.*": policy}, {"sampling.*": policy}, {"sampling.engine_seed": policy, "serve.*": "exact"}, {"host.*": policy},
    ]  # fmt: skip
    assert run(tmp_path, POLICY, tables) == [policy, "exact", policy, policy, policy, "exact"]


@pytest.mark.parametrize("former", FORMER)
def test_a_family_that_was_listed_whole_denies_todays_key(former: str, tmp_path: Path) -> None:
    """A lock that lists every option, and not this one, denies it under any name."""
    more = "\n[serve.args]\nother = 1\n"
    (tmp_path / "old.lock").write_text(
        OLD_LOCK.format(edition=2, facts=2, more=more).replace('accepted = ["KEY"]\n', "")
    )
    (tmp_path / "seen.json").write_text(observation(**{"serve.args.other": 1, former: 4}))
    (line,) = run(tmp_path, JUDGE, [("old.lock", "seen.json")])
    code, _, results = json.loads(line)
    assert (code, {key: status for key, status, *_ in results}[NOW]) == (1, "mismatch")


@pytest.mark.parametrize("former", FORMER)
def test_a_spec_may_still_name_the_former_key(former: str, tmp_path: Path) -> None:
    table, _, name = former.rpartition(".")
    (tmp_path / "llm.toml").write_text(
        f'[checkpoint]\npath = "m"\n[engine]\nname = "vllm"\n[{table}]\n{name} = 3\n[policy]\n"{former}" = "report"\n'
        f'[[waive]]\nfact = "{former}"\nfound = 4\nreason = "spare"\n'
    )
    script = "made = spec.read(text('llm.toml')); print(made.values, Policies(made.policy).of(registry.fact('serve.seed')).value)"
    assert run(tmp_path, script) == ["{('serve', 'seed'): 3} report"]
