"""Programs that run another program: how many of their own words stand before it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z", re.DOTALL)


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """The grammar of one wrapper's own words."""

    values: frozenset[str] = frozenset()  # options whose value is the next word
    words: int = 0  # positional words before the command
    verb: tuple[str, ...] = ()  # one of these must follow first
    assigns: bool = False  # NAME=VALUE words set variables
    dashes: bool = False  # the command begins only after `--`
    cwd: frozenset[str] = frozenset()  # options that change the working directory
    unset: frozenset[str] = frozenset()  # options that drop a variable
    clear: frozenset[str] = frozenset()  # options that drop all variables
    env: frozenset[str] = frozenset()  # options that set NAME=VALUE
    module: frozenset[str] = frozenset()  # options after which a Python module follows
    remote: str = ""  # why the command's environment is not this one


def _w(values: str = "", **kw: object) -> Wrapper:
    sets = {"cwd", "unset", "clear", "env", "module"}
    parts = {key: frozenset(str(value).split()) if key in sets else value for key, value in kw.items()}
    if isinstance(parts.get("verb"), str):
        parts["verb"] = tuple(str(parts["verb"]).split())
    return msgspec.convert({"values": frozenset(values.split()), **parts}, Wrapper, strict=False)


_UV = (
    "--with --with-editable --with-requirements -p --python --project --directory --env-file --extra --group "
    "--only-group --no-group --package --index --index-url -i --default-index --extra-index-url --find-links -f "
    "--index-strategy --keyring-provider --resolution --prerelease --exclude-newer --link-mode --cache-dir "
    "--config-file --color --refresh-package --upgrade-package -P --reinstall-package --no-build-package "
    "--no-binary-package --config-setting -C --from --with-executables-from --constraints -c --overrides "
    "--torch-backend --python-platform --no-extra"
)
_CONDA = _w(
    "-n --name -p --prefix --cwd -a --attach -e --env -r --root-prefix", verb="run", cwd="--cwd", env="-e --env"
)
_SRUN = (
    "-N --nodes -n --ntasks -c --cpus-per-task -p --partition -t --time -J --job-name -w --nodelist -x --exclude "
    "-o --output -e --error -i --input -A --account -G --gpus --gres --mem -D --chdir --export -q --qos -C "
    "--constraint --mpi --cpu-bind --gpus-per-node --ntasks-per-node --gpus-per-task --container-image "
    "--container-mounts --container-workdir --jobid --container-name --distribution -m --wait -W --label "
    "--multi-prog"
)
_NSYS = (
    "-t --trace -s --sample -o --output -w --show-output -y --delay -d --duration -c --capture-range -e --env-var "
    "-f --force-overwrite -x --stop-on-exit -n --inherit-environment -p --nvtx-capture -b --backtrace -a "
    "--accelerator-trace --capture-range-end --cuda-graph-trace --cuda-memory-usage --session-new --stats "
    "--trace-fork-before-exec --kill"
)
_MPI = (
    "-n -np -c -N --n --np -H -host --host -hostfile --hostfile -machinefile --machinefile -map-by --map-by "
    "-bind-to --bind-to -wdir --wdir -wd --prefix -x -report-bindings --rank-by -genv -ppn -f -env"
)

WRAPPERS: dict[str, Wrapper] = {
    "exec": _w("-a"),
    "command": _w(),
    "env": _w(
        "-u --unset -C --chdir", assigns=True, cwd="-C --chdir", unset="-u --unset", clear="-i --ignore-environment -"
    ),
    "numactl": _w(
        "-N --cpunodebind -m --membind -p --preferred -C --physcpubind -i --interleave -w --weighted-interleave "
        "-P --preferred-many -f --file -o --offset -L --length -M --shmmode"
    ),
    "nohup": _w(),
    "setsid": _w(),
    "nice": _w("-n --adjustment"),
    "ionice": _w("-c --class -n --classdata"),
    "taskset": _w(words=1),
    "chrt": _w("-T --sched-runtime -P --sched-period -D --sched-deadline", words=1),
    "timeout": _w("-k --kill-after -s --signal", words=1),
    "stdbuf": _w("-i --input -o --output -e --error"),
    "unbuffer": _w(),
    "time": _w("-f --format -o --output"),
    "sudo": _w(
        "-u --user -g --group -h --host -p --prompt -C --close-from -r --role -t --type -T --command-timeout -U "
        "--other-user -D --chdir -R --chroot",
        assigns=True,
        cwd="-D --chdir",
    ),
    "doas": _w("-u -C"),
    "gosu": _w(words=1),
    "su-exec": _w(words=1),
    "setpriv": _w("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits --pdeathsig"),
    "runuser": _w("-u --user -g --group -G --supp-group"),
    "chpst": _w("-u -U -b -e -n -l -L -m -d -o -p -f -c -r -t"),
    "prlimit": _w("-o --output"),
    "chroot": _w(words=1, remote="the command runs in another root"),
    "unshare": _w("-w --wd -S --setuid -G --setgid -R --root"),
    "nsenter": _w("-t --target -S --setuid -G --setgid", remote="the command runs in another namespace"),
    "dumb-init": _w("--rewrite -r"),
    "tini": _w("-p -e"),
    "tini-static": _w("-p -e"),
    "docker-init": _w("-p -e"),
    "catatonit": _w(),
    "catchsegv": _w(),
    "xvfb-run": _w("-e -f -n -p -s -w --server-num --server-args"),
    "strace": _w("-e -o -p -s -S -u -E -a -I -O -P -X -b"),
    "ltrace": _w("-e -o -p -s -u -a -n -l -x"),
    "perf": _w("-o --output -e --event -F --freq -c --call-graph -g --cpu -C", verb="record stat trace"),
    "nsys": _w(_NSYS, verb="profile launch"),
    "ncu": _w(
        "-o --export -k --kernel-name -c --launch-count -s --launch-skip --set --section --metrics --target-processes"
    ),
    "rocprof": _w("-i -o --timestamp -d -t"),
    "rocprofv3": _w("-i -o -d", dashes=True),
    "gdb": _w("-ex -x -iex", verb="--args"),
    "py-spy": _w("-o --output -f --format -r --rate -d --duration", verb="record", dashes=True),
    "memray": _w("-o --output", verb="run"),
    "uv": _w(_UV, verb="run", cwd="--directory", module="-m --module"),
    "uvx": _w(_UV),
    "poetry": _w("-C --directory -P --project", verb="run"),
    "pipenv": _w(verb="run"),
    "pdm": _w("-p --project", verb="run"),
    "rye": _w(verb="run"),
    "hatch": _w("-e --env", verb="run"),
    "pixi": _w("-e --environment --manifest-path --color", verb="run"),
    "pipx": _w("--spec --python --index-url --pip-args", verb="run"),
    "conda": _CONDA,
    "mamba": _CONDA,
    "micromamba": _CONDA,
    "direnv": _w(verb="exec", words=1),
    "mpirun": _w(_MPI, env="-x"),
    "mpiexec": _w(_MPI, env="-x"),
    "srun": _w(_SRUN),
    "salloc": _w(_SRUN),
    "shifter": _w("--image -i --module -m --volume -V --env -e --env-file --workdir -w"),
    "enroot": _w("-e --env -m --mount -c --conf --rc", verb="start", words=1),
    "proxychains": _w("-f"),
    "proxychains4": _w("-f"),
    "trtllm-llmapi-launch": _w(),
    "systemd-run": _w(
        "-p --property -u --unit -E --setenv -d --working-directory --slice --uid --gid --nice -M --machine "
        "--description --service-type -H --host",
        env="-E --setenv",
        cwd="-d --working-directory",
    ),
    "systemd-inhibit": _w("--what --who --why --mode"),
    "nvidia_entrypoint.sh": _w(),
    "docker-entrypoint.sh": _w(),
    "entrypoint.sh": _w(),
    "lockllm": _w(verb="exec", dashes=True),
    "doppler": _w(verb="run", dashes=True),
    "op": _w(verb="run", dashes=True),
    "infisical": _w(verb="run", dashes=True),
    "dotenv": _w("-f --file", verb="run"),
    "chamber": _w(verb="exec", dashes=True),
    "aws-vault": _w(verb="exec", dashes=True),
    "sops": _w(verb="exec-env", dashes=True),
}
"""Base name of a program -> its grammar."""


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    """The command that a wrapper runs, and what the wrapper changes for it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = ""


def inner(wrapper: Wrapper, argv: Sequence[str], env: Mapping[str, str]) -> Inner | None:
    """What follows the wrapper's own words; None where they do not fit its grammar or nothing follows."""
    start = _verb(wrapper, argv)
    if start is None:
        return None
    if wrapper.dashes:
        rest = list(argv[start:])
        return Inner(argv=tuple(rest[rest.index("--") + 1 :]), env=env) if "--" in rest[:-1] else None
    given, cwd, words, at = dict(env), "", wrapper.words, start
    while at < len(argv):
        word = argv[at]
        name, equals, value = word.partition("=")
        attached = bool(equals) and name.startswith("--")
        if word == "--":
            at += 1
            break
        if word in wrapper.clear:
            given.clear()
            at += 1
        elif word in wrapper.module:
            return Inner(argv=("python3", "-m", *argv[at + 1 :]), env=given, cwd=cwd) if at + 1 < len(argv) else None
        elif word.startswith("-") and len(word) > 1:
            if not attached and word in wrapper.values:
                value = argv[at + 1] if at + 1 < len(argv) else ""
                at += 1
            at += 1
            cwd = value if name in wrapper.cwd else cwd
            given.pop(value, None) if name in wrapper.unset else None
            if name in wrapper.env and (found := _ASSIGN.match(value)):
                given[found.group(1)] = found.group(2)
        elif wrapper.assigns and (found := _ASSIGN.match(word)):
            given[found.group(1)] = found.group(2)
            at += 1
        elif words:
            words -= 1
            at += 1
        else:
            break
    return Inner(argv=tuple(argv[at:]), env=given, cwd=cwd) if at < len(argv) and not words else None


def _verb(wrapper: Wrapper, argv: Sequence[str]) -> int | None:
    """Where the wrapper's own words begin, its subcommand left out; global options may stand before it."""
    if not wrapper.verb:
        return 1
    at = 1
    while at < len(argv) and argv[at] not in wrapper.verb:
        if not argv[at].startswith("-") or argv[at] == "--":
            return None
        at += 2 if argv[at] in wrapper.values else 1
    return at + 1 if at < len(argv) else None
