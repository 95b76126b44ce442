"""What is read of a shell's text is what that shell runs; what is not read is said with its reason."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lockllm.engines.launch import recognise, unwrap

SHOWN = ("A", "B", "M", "HF_HOME")
SERVER = f"""#!{sys.executable} -I
import os, sys
with open(os.environ["SAID"], "a") as out:
    out.write(repr((sys.argv[1:], {{n: os.environ[n] for n in {SHOWN} if n in os.environ}}, os.getcwd())) + "\\n")
"""

READ = [
    "vllm serve m",
    "exec vllm serve m",
    "set -e; vllm serve m",
    "set -eu\nexec vllm serve m --seed 1",
    "export A=1; exec vllm serve m",
    "export A=1 B=2 && exec vllm serve m",
    "export A=1\nexport B=$A/x\nvllm serve m",
    "A=1; vllm serve $A",
    "A=1; export A; vllm serve m",
    "A=1 B=2 vllm serve m",
    "A=1 B=$A vllm serve m",
    "A='x y' vllm serve m",
    "A='x y'; vllm serve $A \"$A\"",
    "A=' x '; vllm serve m$A\"z\" q",
    "set -a; A=1; vllm serve m",
    "export A; A=7; vllm serve m",
    "vllm serve m 2>&1 | tee log",
    "vllm serve m >log 2>&1",
    "vllm serve m 2>/dev/null & wait $!",
    "vllm serve m || true",
    "echo start; vllm serve m; echo done",
    "echo start && vllm serve m && echo done",
    "cd sub; vllm serve m",
    "cd sub && exec vllm serve ./m",
    "cd sub; cd deeper; vllm serve m",
    "mkdir -p x && cd x && vllm serve m",
    "trap 'kill 0' TERM INT; vllm serve m & wait",
    "sleep 0; ulimit -n 64; umask 022; vllm serve m",
    "vllm serve ${M:-m}",
    "vllm serve ${M:-org/m} ${REVISION:+--revision \"$REVISION\"}",
    "vllm serve \"${M:-a b}\"",
    "vllm serve ${M:-a b}",
    "vllm serve ${HERE:-m} ${HERE:+--seed 1} ${HERE-x}",
    "M=${M:-m}; vllm serve $M",
    ": ${M:=m}; vllm serve \"$M\"",
    "vllm serve ${EMPTY:-m} ${EMPTY-x} ${EMPTY:+y}",
    "export M=${M:-m}; vllm serve $M",
    "vllm serve m \\\n  --seed 1 \\\n  --max-model-len 1K",
    "# the server\nvllm serve m # with comments\n# end",
    "vllm serve m --name 'a#b' a#b",
    "vllm serve m --json '{\"a\": 1, \"b\": [2]}'",
    "vllm serve m --json \"{\\\"a\\\": \\\"$HERE\\\"}\"",
    "vllm serve 'it'\"'\"'s' a\\ b \\\\ \"\\$x\" ''",
    "set -- m --seed 1; vllm serve \"$@\"",
    "set -- \"a b\" c; exec vllm serve \"$@\" $*",
    "set -- a b; vllm serve \"$*\" \"x$@y\"",
    "if [ -d nowhere ]; then echo none; fi; vllm serve m",
    "if [ -z \"$M\" ]; then\n  echo none\nelse\n  echo some\nfi\nvllm serve m",
    "for f in 1 2; do echo $f; done; vllm serve m",
    "while false; do sleep 1; done\nvllm serve m",
    "[ -d nowhere ] && echo there; vllm serve m",
    "test -f nowhere || echo missing; vllm serve m",
    "cat <<EOF >/dev/null\nvllm serve other\nEOF\nvllm serve m",
    "cat <<'E O' >/dev/null\n$x `y`\nE O\nvllm serve m",
    "cat <<-EOF >/dev/null\n\t$HERE\n\tEOF\nvllm serve m",
    "HF_HOME=~/h vllm serve ~/m ~",
    "A=x:~/y vllm serve m",
    "unset A; vllm serve ${A:-m}",
    "X=$(echo 1); vllm serve m",
    "X=`echo 1`; vllm serve m --seed 2",
    "env A=1 nice vllm serve m",
    "nohup vllm serve m",
    "sh -c 'A=2 vllm serve m'",
    "sh -c 'exec vllm serve \"$@\"' sh m --seed 3",
    "export A=1; sh -c 'cd sub; vllm serve $A'",
    "vllm serve m < /dev/null",
    "echo yes | vllm serve m",
    "exec 2>&1; vllm serve m",
    "exec vllm serve m; echo never",
    "vllm serve m; exit 0; vllm serve other",
    "A=1 true; vllm serve m",
    "vllm serve m --x=a=b --y \"\"",
]  # fmt: skip

OF_BASH = [
    "set -euo pipefail\nexec vllm serve m --seed 1",
    '[[ -z "$M" && -z "$N" ]] && echo none; vllm serve m',
    "vllm serve m &>log",
    "vllm serve m |& cat",
    "if [[ $HERE == h* ]]; then echo; fi; exec vllm serve m",
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A working directory with a `vllm` on PATH that writes down how it was started."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "work" / "sub" / "deeper").mkdir(parents=True)
    server = tmp_path / "bin" / "vllm"
    server.write_text(SERVER)
    server.chmod(0o755)
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    path = f"{home / 'bin'}:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(home), "SAID": str(home / "said"), "HERE": "here", "EMPTY": ""}


@pytest.mark.parametrize(
    "shell, text", [*(("sh", each) for each in READ), *(("bash", each) for each in (*READ, *OF_BASH))]
)
def test_what_is_read_is_what_the_shell_runs(home: Path, shell: str, text: str) -> None:
    program = shutil.which(shell)
    assert program is not None
    env = environment(home)
    work = home / "work"
    subprocess.run([program, "-c", text], env=env, cwd=work, check=False, capture_output=True, timeout=60)
    ran = [ast.literal_eval(line) for line in (home / "said").read_text().splitlines()]
    taken = unwrap([shell, "-c", text], env)
    assert not taken.opaque, taken.warnings
    form = recognise(taken.argv)
    assert form is not None
    shown = {name: taken.env[name] for name in SHOWN if name in taken.env}
    assert (["serve", *form.args], shown, str((work / taken.cwd).resolve())) == ran[0]


NOT_READ = [
    ("vllm serve $MODEL", "MODEL, which is not set here"),
    ("vllm serve ${MODEL:?}", "MODEL, which is not set here"),
    ("vllm serve $(cat model)", "another command"),
    ("vllm serve `cat model`", "another command"),
    ("vllm serve $(MODEL)", "Kubernetes"),
    ("vllm serve m --tensor-parallel-size $(TP)", "Kubernetes"),
    ("M=$(cat model); vllm serve $M", "M is not known"),
    ("export M=$(cat model); vllm serve $M", "M is not known"),
    ("read M; vllm serve $M", "`read`"),
    (". ./env.sh; vllm serve $M", "`.`"),
    ("source env.sh && vllm serve ${M:-m}", "`source`"),
    ('[ -n "$X" ] && M=a; vllm serve $M', "depends on"),
    ('test -n "$X" || M=a; vllm serve $M', "depends on"),
    ("if true; then M=a; fi; vllm serve $M", "depends on"),
    ("for M in a b; do true; done; vllm serve $M", "depends on"),
    ("M=a | true; vllm serve $M", "depends on"),
    ("[ -d x ] && cd x; vllm serve ./m", "directory"),
    ("cd $(dirname $0); vllm serve ./m", "directory"),
    ("cd $NOWHERE; vllm serve m", "directory"),
    ("if true; then vllm serve a; else vllm serve b; fi", "`if`"),
    ("while true; do vllm serve m; done", "`while`"),
    ("for m in a b; do vllm serve m; done", "`for`"),
    ("test -d x || vllm serve m", "outcome of another command"),
    ("vllm serve a & vllm serve b", "more than once"),
    ("case $X in a) vllm serve m;; esac", "`case`"),
    ("f() { vllm serve m; }; f", "function"),
    ("function f { vllm serve m; }; f", "function"),
    ("{ vllm serve m; }", "group"),
    ("(cd x; vllm serve m)", "subshell"),
    ('ARGS=(--seed 1); vllm serve m "${ARGS[@]}"', "array"),
    ("A+=x; vllm serve $A", "A is not known"),
    ("eval vllm serve m", "the shell's own"),
    ('eval "vllm serve m"', "the shell's own"),
    ("vllm serve models/*", "expands `*`"),
    ('vllm serve m {x,--enforce-eager,"--served-model-name=y z"}', "expands `{`"),
    ('vllm serve m --json {"a":1,"b":2}', "expands `{`"),
    ("vllm serve ~other/m", "expands `~`"),
    ("vllm serve 'm", "not closed"),
    ('vllm serve "m', "not closed"),
    ("vllm serve ${M:-m", "missing"),
    ("vllm serve $PWD", "the shell itself sets PWD"),
    ("vllm serve $RANDOM", "the shell itself sets RANDOM"),
    ("IFS=,; vllm serve m", "IFS"),
    ("vllm serve ${M%x}", "fills in a variable"),
    ("vllm serve ${M/a/b}", "fills in a variable"),
    ("vllm serve $((1+1))", "another command"),
    ("vllm serve $'m'", "fills in a variable"),
    ("vllm serve m <(cat x)", "it holds `<(…)`"),
    ("exec > >(tee log); vllm serve m", "it holds `>(…)`"),
    ("cat <<EOF\nvllm serve m", "does not end"),
    ("exec sleep 1; vllm serve m", "no engine"),
    ("python serve.py --model m", "no launch form"),
    ("echo nothing", "no engine"),
    ("", "no program"),
    ("true;; vllm serve m", "`case`"),
]


@pytest.mark.parametrize("text, why", NOT_READ, ids=[text[:40] for text, _ in NOT_READ])
def test_what_is_not_read_is_said(text: str, why: str) -> None:
    taken = unwrap(["bash", "-c", text], {"X": "1", "HOME": "/h"})
    assert taken.opaque
    assert recognise(taken.argv) is None
    assert why in " ".join(taken.warnings)


SAID = [
    ("pip install -q x; vllm serve m", "`pip` runs"),
    ("hf download org/m && pip install x && exec vllm serve org/m", "`hf`, `pip` run"),
    ("bash prepare.sh leader --size=2; python3 -m vllm.entrypoints.openai.api_server --model m", "`bash` runs"),
    ("echo 'dtype: half' > c.yaml; vllm serve m --config c.yaml", "`echo` runs"),
    ("cat > c.yaml <<EOF\nmodel: m\nEOF\nvllm serve m", "`cat` runs"),
    ("$PREPARE; vllm serve m", "runs: what it changes"),
    ("source /venv/bin/activate && vllm serve m", "`source` runs"),
    (". /venv/bin/activate; vllm serve m", "`.` runs"),
    ("export A=$(nproc); vllm serve m", "A is exported, but another command gives it"),
    ('[ -n "$X" ] && export A=1; vllm serve m', "A is exported, but"),
    ("vllm serve ${M:-m}", "M is not set here"),
    ("M=${N:-m}; vllm serve $M", "N is not set here"),
    ("vllm serve m \\ \n  --seed 1", "`--seed` begins a command of its own"),
    ("vllm serve m \\\n  # seed\n  --seed 1", "`--seed` begins a command of its own"),
    ("vllm serve m\n--seed 1", "`--seed` begins a command of its own"),
]


@pytest.mark.parametrize("text, warning", SAID, ids=[text[:40] for text, _ in SAID])
def test_what_a_text_does_beside_the_engine_is_said(text: str, warning: str) -> None:
    taken = unwrap(["sh", "-c", text], {"X": "1"})
    form = recognise(taken.argv)
    assert form is not None
    assert "--seed" not in form.args
    assert warning in " ".join(taken.warnings)


@pytest.mark.parametrize("argv, warning", [
    (["sh", "-c", "vllm serve m", "sh", "--seed", "1"], "only fill $0"),
    (["bash", "-lc", "vllm serve m"], "start-up files"),
    (["bash", "-ic", "vllm serve m"], "start-up files"),
    (["bash", "--login", "-c", "vllm serve m"], "start-up files"),
])  # fmt: skip
def test_words_around_the_text_are_said(argv: list[str], warning: str) -> None:
    taken = unwrap(argv, {})
    assert not taken.opaque
    assert warning in " ".join(taken.warnings)


@pytest.mark.parametrize("argv", [
    ["/bin/sh", "-c", "vllm", "serve", "--model", "m"],
    ["bash", "-c", "python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"],
    ["sh", "-c", "exec", "vllm", "serve", "m"],
])  # fmt: skip
def test_a_command_split_into_several_words_is_lost_and_said(argv: list[str]) -> None:
    taken = unwrap(argv, {})
    assert taken.opaque
    assert "reach no command" in taken.warnings[0]
    assert "one text" in taken.warnings[0]


def test_a_text_that_is_its_own_value_ends() -> None:
    taken = unwrap(["sh", "-c", 'sh -c "$X"; sh -c "$X"'], {"X": 'sh -c "$X"; sh -c "$X"; sh -c "$X"'})
    assert taken.opaque


@pytest.mark.parametrize("count, opaque", [(150, False), (250, True)])
def test_a_text_of_many_commands_is_bounded(count: int, opaque: bool) -> None:
    assert unwrap(["sh", "-c", "true;" * count + "vllm serve m"], {}).opaque is opaque
