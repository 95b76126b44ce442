"""What serves here, or would serve: the process or planned command, its environment, arguments and checkpoint."""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lockllm import engines
from lockllm.checkpoint import hub
from lockllm.engines import Engine, Installed, Model, Probe
from lockllm.engines.launch import recognise, unwrap
from lockllm.errors import UsageError
from lockllm.facts.fact import Stage
from lockllm.facts.observation import Unobserved
from lockllm.observe.process import listeners, proc
from lockllm.observe.python import environments, interpreter, packages
from lockllm.observe.python.environments import Environment
from lockllm.observe.request import Request
from lockllm.observe.safe import files
from lockllm.observe.server import command_line, engine_source, find, launch, workers
from lockllm.observe.server.command_line import Plan
from lockllm.observe.server.find import RunningServer
from lockllm.observe.web import http

_READY = Probe(path="/v1/models")
_OF_ALL = {"0.0.0.0": ("127.0.0.1",), "::": ("127.0.0.1", "::1")}
"""Where a socket that is bound to all addresses is asked."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about the server before slow requests start."""

    stage: Stage
    server: RunningServer | None = None  # its process, where it is one of this machine
    address: http.Address | None = None  # where HTTP is asked
    elsewhere: Unobserved | None = None  # why the rest of it is not this machine's to see
    environment: Environment | None = None
    no_environment: Unobserved | None = None
    plan: Plan | None = None  # its command line, running or planned
    engine: Engine | None = None
    engine_name: str | None = None
    installed: Installed | None = None  # its options by its own source, where no table has its release

    @property
    def live(self) -> bool:
        """Whether the target is a running server."""
        return self.server is not None or self.address is not None

    @property
    def env(self) -> Mapping[str, str]:
        """The variables that reach the engine."""
        return self.plan.env if self.plan else self.server.process.env if self.server else {}

    def place(self, name: str) -> str | None:
        """Where to open a path that the command names; None where it is inside a container that is not running here."""
        if self.server is None and self.plan is not None:
            return command_line.place(self.plan, name)
        return self.path(os.path.expanduser(name) if name.startswith("~") else name)

    def path(self, name: str) -> str:
        """A path as the server means it, as this process can open it."""
        base = self.plan.cwd if self.plan else "/"
        joined = os.path.join(base or "/", name)
        return str(self.server.process.path(joined)) if self.server else os.path.normpath(joined)


def locate(request: Request) -> Target:
    """Find the server that a request means. UsageError where it matches none or several."""
    address = http.parse(request.server) if request.server is not None else None
    headers = http.key_headers(request.api_key, request.headers)
    if address is not None and request.wait > 0 and request.stage is not Stage.PREFLIGHT:
        http.wait(address, _READY, headers, request.wait, request.timeout)
    server: RunningServer | None = None
    elsewhere: Unobserved | None = None
    if request.pid is not None:
        server = _by_pid(request.pid, request.wait if request.stage is not Stage.PREFLIGHT else 0.0)
    elif address is not None:
        local = find.by_address(address, seconds=request.timeout)
        server, elsewhere = (local, None) if isinstance(local, RunningServer) else (None, local)
    elif not request.command and request.stage is not Stage.PREFLIGHT:
        server = find.choose(request.engine)
        deadline = time.monotonic() + request.wait
        while server is None and time.monotonic() < deadline:
            time.sleep(0.2)
            server = find.choose(request.engine)
    if address is None and server is not None:
        server, address = _listening(server, request.wait if request.stage is not Stage.PREFLIGHT else 0.0)
        if address is not None and request.wait > 0:
            http.wait(address, _READY, headers, request.wait, request.timeout)
    stage = request.stage or (Stage.ALL if server is not None or address is not None else Stage.PREFLIGHT)
    if stage is Stage.PREFLIGHT:
        address = None
    return _understand(request, Target(stage=stage, server=server, address=address, elsewhere=elsewhere))


def checkpoint(request: Request, target: Target) -> tuple[str, str | None, str] | Unobserved:
    """The checkpoint that the server loads or would load: its path, a revision in a cache, and how that is known."""
    none = ("checkpoint",)
    if request.checkpoint is not None:
        if not os.path.exists(request.checkpoint):
            fix = "name a directory, an HF cache snapshot or a .gguf file"
            raise UsageError(f"no checkpoint at {request.checkpoint}", where="--checkpoint", fix=fix)
        return _named_by_command(request, target) or (request.checkpoint, None, "--checkpoint")
    if target.elsewhere is not None:
        return Unobserved(none, target.elsewhere.reason, target.elsewhere.fix)
    if target.server is not None and target.server.process.hidden:
        return Unobserved(none, target.server.process.hidden, "run lockllm as the user of the server, or as root")
    given = target.plan.given if target.plan else None
    if (chosen := _named_by_command(request, target)) is not None:
        return chosen
    if given is not None and given.model is None:
        given = next((each for _, each in workers.given(target.server) if each.model is not None), given)
    mapped = _mapped(target)
    if given is not None and given.model is not None:
        place = model(given.model, target, request)
        if not isinstance(place, Unobserved):
            return place
        if mapped is not None:
            return mapped
        return place
    if mapped is not None:
        return mapped
    if target.server is not None and target.server.form is None:
        fix = "name its checkpoint with --checkpoint"
        return Unobserved(none, f"pid {target.server.process.pid} maps no weights and names no model", fix)
    if target.server is not None and given is not None and engines.identity(given.engine).command_names_model:
        reason = f"pid {target.server.process.pid} was started without a model: it loads one when a request names it"
        return Unobserved(none, reason, "start the server with the locked model")
    if request.path is not None and os.path.exists(request.path):
        return request.path, None, "llm.toml"
    if request.repo is not None and not engines.identity(request.engine).own_registry:
        cache = hub.cache_root(os.environ, os.path.expanduser("~"))
        folder = hub.repo_folder(cache, request.repo)
        if hub.is_repo(folder):
            return folder, request.commit or request.revision, "our own cache: not proven to be what a server loads"
    return Unobserved(none, "no server, command, or path names the checkpoint", "name it with --checkpoint")


def _named_by_command(request: Request, target: Target) -> tuple[str, str | None, str] | Unobserved | None:
    """What a planned command loads, whatever `--checkpoint` or the spec say; None where no command was read."""
    given = target.plan.given if request.command and target.plan else None
    if given is None or engines.identity(given.engine).own_registry:
        return None
    if given.model is None:
        reason = "the command names no model: the engine would choose one, or ask each request for it"
        return Unobserved(("checkpoint",), reason, "name the model in the command")
    place = model(given.model, target, request)
    if not isinstance(place, Unobserved) or request.checkpoint is None:
        return place
    reason = f"the command names {given.model.text}, which --checkpoint does not replace: {place.reason}"
    return Unobserved(place.path, reason, "name the checkpoint in the command by the path of --checkpoint")


def model(named: Model, target: Target, request: Request) -> tuple[str, str | None, str] | Unobserved:
    """Where a model argument leads: a path, or a repository in the cache that the process itself uses."""
    local = target.path(os.path.expanduser(named.text) if named.text.startswith("~") else named.text)
    if os.path.exists(local):
        return local, None, named.source
    if named.text.startswith(("/", ".", "~")) or named.text.count("/") > 1:
        return Unobserved(("checkpoint",), f"{named.text} is not there ({named.source})", "check the server's mounts")
    env = target.env
    home = env.get("HOME") or os.path.expanduser("~")
    caches = [hub.cache_root(env, home)]
    if "--download-dir" in _words(target):
        caches.insert(0, _after(target, "--download-dir"))
    for cache in caches:
        folder = target.path(hub.repo_folder(cache, named.text))
        if hub.is_repo(folder):
            path, ref = hub.snapshot(folder, named.revision)
            if path is None:
                return Unobserved(("checkpoint",), f"{named.text}: {ref}", "download it, or name it with --checkpoint")
            inner = os.path.join(path, _named(path, named.file)) if named.file else path
            return inner, ref, f"{named.source}, cache ref {ref}"
    fix = "download it, name it with --checkpoint, or set HF_HOME as the server has it"
    return Unobserved(("checkpoint",), f"the cache has no {named.text}", fix)


def installed_release(engine: str, interpreter_path: str | None) -> tuple[str | None, Installed | None]:
    """The public version of an engine in the environment that would serve: of an interpreter, else the nearest one.

    With it come its options by its own source, where no table has that release.
    """
    if not engines.known(engine):
        return None, None
    found = interpreter.ask(interpreter_path) if interpreter_path is not None else _nearby(engines.load(engine))
    return _release(found, engine) if isinstance(found, Environment) else (None, None)


def own_options(argv: tuple[str, ...], env: Mapping[str, str], cwd: str, version: str | None) -> Installed | None:
    """The options of the engine that a command starts, by the source of the package that it would run.

    None where a table has that release, the package is another one than the version that is asked for, or it lies inside a
    container.
    """
    taken = unwrap(argv, env)
    form = None if taken.opaque or taken.reach == "container" else recognise(taken.argv)
    if form is None:
        return None
    held = environments.of_command(taken.argv, {**env, **taken.env}, os.path.join(cwd, taken.cwd))
    told = _release(held, form.engine)[1]
    return told if told is not None and version in (None, told.version) else None


def _understand(request: Request, target: Target) -> Target:
    environment = _environment(request, target)
    held = environment if isinstance(environment, Environment) else None
    missing = environment if isinstance(environment, Unobserved) else None
    name = target.server.engine if target.server else None
    read: Plan | None = None
    source: Installed | None = None
    if target.server is not None and target.server.process.argv:
        process = target.server.process
        version, source = _release(held, target.server.engine)
        reader = _reader(target.server)
        read = command_line.plan(process.argv, process.env, process.cwd, version, reader, live=True, installed=source)
    elif request.unread:
        read = launch.unread_plan(request.command, request.environ, request.cwd)
    elif request.command:
        version, source = _release(held, request.engine)
        typed = (request.command, request.environ, request.cwd)
        read = command_line.plan(*typed, version, engine=request.engine, installed=source)
        if version is None and held is not None and read.form is not None:
            version, source = _release(held, read.form.engine)
            read = command_line.plan(*typed, version, engine=request.engine, installed=source)
    elif request.planned is not None:
        given = request.planned
        read = Plan(
            given=given,
            form=None,
            readings=given.readings,
            checks=(),
            warnings=(),
            unwrapped=unwrap((), {}),
            cwd=request.cwd,
        )
        name = given.engine
    name = name or (read.form.engine if read and read.form else None)
    if name is None and target.address is None:
        name = request.engine
    if name is None and request.python is not None and held is not None:
        name = _installed(held)
    engine = engines.load(name) if engines.known(name) and name is not None else None
    if target.server is None and not request.command and request.python is None and target.elsewhere is None:
        chosen = _nearby(engine)
        held, missing = (chosen, None) if isinstance(chosen, Environment) else (None, chosen)
    return msgspec.structs.replace(
        target,
        environment=held,
        no_environment=missing,
        plan=read,
        engine=engine,
        engine_name=name,
        installed=source or engine_source.installed(held, engine),
    )


def _environment(request: Request, target: Target) -> Environment | Unobserved | None:
    if request.python is not None:
        named = interpreter.ask(request.python)
        if not request.command or request.unread:
            return named
        return launch.environment_of(request.command, request.environ, request.cwd, named)
    if request.unread:
        return Unobserved(("packages",), request.unread, launch.FIX)
    if target.server is not None:
        return environments.of_process(target.server.process, target.server.mappings.sites)
    if target.elsewhere is not None:
        return Unobserved(("packages",), target.elsewhere.reason, target.elsewhere.fix)
    if request.command:
        taken = unwrap(request.command, request.environ)
        cwd = os.path.join(request.cwd, taken.cwd)
        found = environments.of_command(taken.argv, taken.env, cwd) if taken.argv else None
        if found is not None:
            return found
        fix = "name the interpreter of the serving environment with --python"
        return Unobserved(("packages",), "the command names no Python program of this host", fix)
    return None


def _installed(environment: Environment) -> str | None:
    """The engine of an environment; one whose distribution is in that of others too counts last."""
    names = sorted(engines.available(), key=lambda name: engines.identity(name).beside_others)
    return next((name for name in names if environment.of_any(engines.load(name).distributions)), None)


def _nearby(engine: Engine | None) -> Environment | Unobserved:
    """The environment that would serve where none is named: lockllm's own, or that of the first `python3` on PATH."""
    own = environments.own()
    if engine is None or own.of_any(engine.distributions) is not None:
        return own
    for word in ("python3", "python"):
        other = environments.of_command((word,), os.environ, os.getcwd())
        if other is not None and other.of_any(engine.distributions) is not None:
            return other
    reason = f"{engine.name} is installed neither beside lockllm nor in the environment on PATH"
    return Unobserved(("packages",), reason, "name the interpreter of the serving environment with --python")


def _release(environment: Environment | None, name: str | None) -> tuple[str | None, Installed | None]:
    """The version of an engine that is installed, and its options by its own source where no table has that release."""
    if environment is None or name is None or not engines.known(name):
        return None, None
    engine = engines.load(name)
    return packages.release(environment, engine), engine_source.installed(environment, engine)


def _by_pid(pid: int, seconds: float) -> RunningServer:
    """The server of a process; a shell or supervisor may start it late."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return find.by_pid(pid)
        except UsageError:
            if time.monotonic() >= deadline or not (proc.PROC / str(pid)).exists():
                raise
            time.sleep(0.1)


def _listening(server: RunningServer, seconds: float) -> tuple[RunningServer, http.Address | None]:
    """Where a process answers; one that is still loading opens its port late."""
    deadline = time.monotonic() + seconds
    address = _address(server)
    while address is None and time.monotonic() < deadline and proc.alive(server.process):
        time.sleep(0.1)
        try:
            server = find.by_pid(server.process.pid)
        except UsageError:
            break
        address = _address(server)
    return server, address


def _address(server: RunningServer) -> http.Address | None:
    """Where a process answers HTTP, as seen from here."""
    if not server.addresses or not find.same_network(server.process):
        return None
    wanted = port(server)
    given = [each for each in server.addresses if each[1] == wanted]
    if wanted is not None and not given:
        return None  # it is not open yet: what else is open is for its own processes
    own = {process.pid for process in server.processes}
    for host, number in given or server.addresses:
        for address in _OF_ALL.get(host, (host,)):
            answering = listeners.accepting(address, number)
            if answering is None or own.intersection(answering):
                return http.Address("http", address, number)
    return None  # other processes stand before it at every address


def port(server: RunningServer) -> int | None:
    """The port at which its engine answers: as typed, or the engine's own. None: any, or none that is known."""
    if server.form is None or server.process.hidden:
        return None
    process = server.process
    given = command_line.plan(process.argv, process.env, process.cwd, None, _reader(server), live=True).given
    if given is None or (given.port is None and given.unread):
        return None
    number = given.port if given.port is not None else engines.identity(server.engine).port
    return number if 0 < number < 65_536 else None


def _mapped(target: Target) -> tuple[str, str | None, str] | None:
    """The weights that the process maps: one file, or the folder of several."""
    if target.server is None or not target.server.mappings.weights:
        return None
    process = target.server.process
    files = [Path(file.path) for file in target.server.mappings.weights]
    source = f"/proc/{process.pid}/maps"
    folder = files[0].parent
    one = files[0] if files[0].suffix.lower() == ".gguf" else folder
    place = proc.inside(process.root, str(one))
    return (str(place), None, source) if place.exists() else None


def _named(folder: str, file: str) -> str:
    """A file of a snapshot by its name, or the first that a pattern fits (`*Q4_K_M*.gguf`), whatever the case."""
    if "*" not in file:
        return file
    try:
        names = files.names(Path(folder))
    except OSError:
        return file
    return next((name for name in names if fnmatch.fnmatchcase(name.lower(), file.lower())), file)


def _reader(server: RunningServer) -> command_line.Read:
    return lambda path: command_line.read_file(str(server.process.path(path)))


def _words(target: Target) -> tuple[str, ...]:
    return target.plan.form.args if target.plan and target.plan.form else ()


def _after(target: Target, option: str) -> str:
    words = _words(target)
    at = words.index(option)
    return words[at + 1] if at + 1 < len(words) else ""
