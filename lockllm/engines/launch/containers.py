"""`docker run`, `podman run`, `singularity exec` and their like: image, variables, mounts, the words after it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from lockllm import engines

HOSTS_OF_IMAGES: tuple[tuple[str, str], ...] = (
    (r"(^|/)nvcr\.io/nim/", "nim"),
    (r"(^|/)nvidia/tritonserver", "triton"),
    (r"(^|/)deepjavalibrary/djl-serving|(^|/)djl-inference$", "djl"),
    (r"(^|/)kserve/huggingfaceserver", "kserve"),
    (r"(^|/)rayproject/ray(-llm)?", "ray-serve"),
)
"""Image names of hosts: the engine inside is chosen at start."""

_PROGRAMS = frozenset({"docker", "podman", "nerdctl", "finch", "nvidia-docker"})
_SIFS = frozenset({"singularity", "apptainer"})


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FLAGS = _set(
    "-d --detach -i --interactive -t --tty --rm --init --privileged -P --publish-all --read-only --no-healthcheck "
    "--oom-kill-disable --sig-proxy --disable-content-trust -q --quiet --help --replace --tls-verify --http-proxy "
    "--rmi --env-host --no-hosts --no-hostname --passwd --rootfs --unsetenv-all --read-only-tmpfs "
    "--use-api-socket"
)
_VALUES = _set(
    "-a --attach --add-host --annotation --blkio-weight --cap-add --cap-drop --cgroup-parent --cgroupns --cidfile "
    "--cpu-period --cpu-quota --cpu-rt-period --cpu-rt-runtime -c --cpu-shares --cpus --cpuset-cpus --cpuset-mems "
    "--detach-keys --device --device-cgroup-rule --device-read-bps --device-write-bps --dns --dns-option "
    "--dns-search --domainname --entrypoint -e --env --env-file --expose --gpus --group-add --health-cmd "
    "--health-interval --health-retries --health-timeout -h --hostname --ip --ip6 --ipc --isolation --kernel-memory -l "
    "--label --label-file --link --link-local-ip --log-driver --log-opt --mac-address -m --memory "
    "--memory-reservation --memory-swap --memory-swappiness --mount --name --net --network --network-alias --net-alias "
    "--oom-score-adj --pid --pids-limit --platform -p --publish --pull --restart --runtime --security-opt "
    "--shm-size --stop-signal --stop-timeout --storage-opt --sysctl --tmpfs --ulimit -u --user --userns --uts -v "
    "--volume --volume-driver --volumes-from -w --workdir --pod --secret --systemd --conmon-pidfile --authfile "
    "--arch --os --variant --timezone --tz --umask --requires --unsetenv --device-read-iops --health-start-period "
    "--hooks-dir --image-volume --infra-command --requests --preserve-fds --sdnotify --seccomp-policy "
    "--subgidname --subuidname --uidmap --gidmap --hostuser --cgroup-conf --chrootdirs --decryption-key "
    "--group-entry --passwd-entry"
)
_SIF_VALUES = _set(
    "-B --bind --env --env-file -H --home --pwd --cwd -W --workdir -o --overlay -S --scratch --app --add-caps "
    "--drop-caps --apply-cgroups --dns --fusemount --hostname --mount --network --network-args --security "
    "--pem-path --shell --cpus --cpuset-cpus --memory --blkio-weight"
)


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """What a container command line says."""

    argv: tuple[
        str, ...
    ]  # with an overridden entry point in front; its program is the image's own where `entrypoint` is None
    env: Mapping[str, str]
    image: str = ""
    entrypoint: str | None = None
    env_files: tuple[str, ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()  # (host, inside), longest inside first
    cwd: str = ""
    warnings: tuple[str, ...] = ()
    started: bool = True  # false: `docker exec`, into a container whose own variables are not on this line


def is_container(program: str) -> bool:
    """Whether a program runs containers."""
    return program in _PROGRAMS or program in _SIFS


def name_of(image: str) -> str:
    """An image without tag, digest and scheme."""
    text = image.split("://", 1)[-1].split("@", 1)[0]
    head, slash, tail = text.rpartition("/")
    return head + slash + tail.split(":", 1)[0]


def version_of(image: str) -> tuple[str | None, str | None]:
    """The tag and the digest that an image reference names."""
    text = image.split("://", 1)[-1]
    text, _, digest = text.partition("@")
    tail = text.rpartition("/")[2]
    return (tail.partition(":")[2] or None), (digest or None)


def engine_of(image: str) -> str | None:
    """The engine whose arguments follow the image; None where its entry point is no engine or not known."""
    name, tag = name_of(image), version_of(image)[0] or ""
    for each in engines.identities():
        if any(re.search(pattern, name) for pattern in each.images):
            return each.name if re.match(each.image_tags, tag) else None
    return None


def host_of(image: str) -> str:
    """The host (`nim`, `triton` …) that an image is, or an empty text."""
    return next((host for pattern, host in HOSTS_OF_IMAGES if re.search(pattern, name_of(image))), "")


def runs_commands(image: str) -> bool:
    """Whether the words after the image are a command of their own, as far as known."""
    patterns = (pattern for each in engines.identities() for pattern in each.command_images)
    return any(re.search(pattern, name_of(image)) for pattern in patterns)


def read(argv: Sequence[str], program: str, env: Mapping[str, str]) -> Container | None:
    """A container command line, or None where it runs nothing (`docker ps`) or its image cannot be found."""
    return _singularity(argv, env) if program in _SIFS else _docker(argv, env)


def _docker(argv: Sequence[str], env: Mapping[str, str]) -> Container | None:
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] in ("-H", "--host", "-c", "--context", "--config", "-l", "--log-level") else 1
    if at < len(argv) and argv[at] == "container":
        at += 1
    if at >= len(argv) or argv[at] not in ("run", "exec", "create"):
        return None
    options, at, warnings = _options(argv, at + 1, started=argv[at] != "exec")
    verb_started = options.pop("", ["1"])[0] == "1"
    if at >= len(argv):
        return None
    entrypoint = options["--entrypoint"][-1] if "--entrypoint" in options else None
    rest = tuple(argv[at + 1 :])
    return Container(
        argv=(entrypoint, *rest) if entrypoint else rest,
        env=_variables(options.get("-e", []) + options.get("--env", []), env),
        image=argv[at] if verb_started else "",
        entrypoint=entrypoint,
        env_files=tuple(options.get("--env-file", ())),
        mounts=_mounts(options),
        cwd=(options.get("-w", []) + options.get("--workdir", []) or [""])[-1],
        warnings=tuple(warnings),
        started=verb_started,
    )


def _options(argv: Sequence[str], at: int, started: bool) -> tuple[dict[str, list[str]], int, list[str]]:
    found: dict[str, list[str]] = {"": ["1" if started else ""]}
    warnings: list[str] = []
    while at < len(argv) and argv[at].startswith("-") and len(argv[at]) > 1:
        word = argv[at]
        name, equals, value = word.partition("=")
        at += 1
        if word == "--":
            break
        if not word.startswith("--") and len(name) > 2:
            cluster = name[1:]
            taker = next((char for char in cluster if f"-{char}" in _VALUES), None)
            if taker is None:
                continue
            name, value = f"-{taker}", word[word.index(taker) + 1 :].removeprefix("=")
            if not value and at < len(argv):
                value, at = argv[at], at + 1
        elif name in _FLAGS:
            continue
        elif not equals and at < len(argv):
            value, at = argv[at], at + 1
        if name not in _VALUES:
            warnings.append(f"{name} stands before the image: no option of the runtime, and no argument of the server")
        found.setdefault(name, []).append(value)
    return found, at, warnings


def _variables(given: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if equals:
            found[name] = value
        elif name in env:
            found[name] = env[name]
    return found


def _mounts(options: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for text in [*options.get("-v", ()), *options.get("--volume", ())]:
        host, colon, inside = text.partition(":")
        if colon and inside and (host.startswith(("/", ".", "~"))):
            found.append((host, inside.split(":", 1)[0]))
    for text in options.get("--mount", ()):
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        source = parts.get("source") or parts.get("src")
        target = parts.get("target") or parts.get("destination") or parts.get("dst")
        if source and target and parts.get("type", "bind") == "bind":
            found.append((source, target))
    return tuple(sorted(found, key=lambda pair: -len(pair[1])))


def _singularity(argv: Sequence[str], env: Mapping[str, str]) -> Container | None:
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 1
    if at >= len(argv) or argv[at] not in ("exec", "run"):
        return None
    verb = argv[at]
    at += 1
    given: list[str] = []
    files: list[str] = []
    clean, cwd = False, ""
    while at < len(argv) and argv[at].startswith("-"):
        name, equals, value = argv[at].partition("=")
        at += 1
        if not equals and name in _SIF_VALUES and at < len(argv):
            value, at = argv[at], at + 1
        clean = clean or name in ("-e", "--cleanenv", "-c", "--contain", "-C", "--containall")
        if name == "--env":
            given.extend(value.split(","))
        elif name == "--env-file":
            files.append(value)
        elif name in ("--pwd", "--cwd"):
            cwd = value
    if at >= len(argv):
        return None
    inside = {name.removeprefix("SINGULARITYENV_").removeprefix("APPTAINERENV_"): value for name, value in env.items()}
    return Container(
        argv=tuple(argv[at + 1 :]),
        env={**({} if clean else inside), **_variables(given, env)},
        image=argv[at],
        entrypoint="" if verb == "exec" else None,
        env_files=tuple(files),
        cwd=cwd,
    )
