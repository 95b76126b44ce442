"""`lockllm` and `python -m lockllm`."""

import _signal  # type: ignore[import-not-found]  # `signal` itself imports for 2 ms, in which an interrupt prints a traceback
import os
import sys

if __name__ == "__main__" and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

_INJECT = frozenset(
    f"PYTHON{name}".encode()
    for name in "PATH HOME PLATLIBDIR PYCACHEPREFIX WARNINGS INSPECT STARTUP BREAKPOINT USERBASE EXECUTABLE CASEOK".split()
)
"""Variables that bring foreign code into an interpreter, or foreign files in place of the interpreter's own."""


_FROM_SOURCES = "import sys; sys.path.insert(0, sys.argv.pop(1)); sys.argv[0] = 'lockllm'; from lockllm.__main__ import main; main()"


def main() -> int:
    """Run the command line and exit. An interrupt ends it quietly from here on, while everything else is still imported."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    if not sys.flags.isolated:
        _isolate()
    try:
        from lockllm.cli import main as run
    except Exception as error:  # noqa: BLE001 - a package of another Python fails in any way
        _in_the_way(error)
    return run()


def _isolate() -> None:
    """Start again as `python -I`, where the environment or the user's site folder brings code into this interpreter.

    The environment stays as it is: the command of `exec` gets it. Without such code nothing starts again.
    """
    own = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    environ = _given()
    hooks = (getattr(sys.modules.get(name), "__file__", None) or "" for name in ("sitecustomize", "usercustomize"))
    customized = any(hook and not _inside(hook) for hook in hooks)
    if not customized and not _user_site_counts(own) and not any(environ.get(name) for name in _INJECT):
        if __name__ == "__main__" and sys.path and _is_here(sys.path[0]) and not _same(own, "."):
            del sys.path[0]  # `-m` puts the working directory in front
        return
    if not sys.executable:
        return
    named = os.fsdecode(environ.get(b"PYTHONPATH", b"")).split(os.pathsep)
    # -I alone would lose this package where PYTHONPATH names it (sources, `pip --target`) or it lies in the user's site folder.
    lost = any(_same(own, each) for each in (*named, _user_site()) if each)
    start = ("-c", _FROM_SOURCES, own) if lost else ("-m", "lockllm")
    words = ["-I", *(("-X", "utf8") if sys.flags.utf8_mode else ()), *start, *sys.argv[1:]]
    try:
        os.execve(sys.executable, [sys.executable, *words], environ)  # noqa: S606
    except OSError as why:
        sys.stderr.write(
            f"lockllm: it cannot restart itself in isolated mode: {why.strerror}\n  fix   run `python -I -m lockllm`\n"
        )
        sys.exit(4)


def _user_site() -> str:
    """The user's own site folder, where this interpreter imports from it; empty where it does not.

    `site` runs its `.pth` lines at the start and puts it before the interpreter's site folders (CPython `Lib/site.py`).
    """
    folder = getattr(sys.modules.get("site"), "USER_SITE", None) or ""
    return folder if folder in sys.path else ""


def _user_site_counts(own: str) -> bool:
    """Whether the user's site folder may bring foreign code: always where lockllm is not installed in it, else by `.pth`."""
    folder = _user_site()
    if not folder or not _same(folder, own):
        return bool(folder)
    try:
        return any(name.endswith(".pth") for name in os.listdir(folder))
    except OSError:
        return True


def _is_here(path: str) -> bool:
    """Whether an entry of the path is the working directory. It may be gone by now."""
    return not path or _same(path, ".")


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _given() -> dict[bytes, bytes]:
    """The environment as this process got it, whatever was done to `os.environ` since."""
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = [each.partition(b"=") for each in file.read().split(b"\0") if each]
    except OSError:
        return dict(os.environb)
    return {name: value for name, equals, value in pairs if equals}


def _inside(path: str) -> bool:
    """Whether a file is the interpreter's own, or one that the system's administrator put there."""
    places = (sys.prefix, sys.base_prefix, sys.exec_prefix, "/etc")
    real = os.path.realpath(path)
    return any(real.startswith(os.path.realpath(each).rstrip("/") + "/") for each in places)


def _in_the_way(error: Exception) -> None:
    words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    shown = words.encode("ascii", "backslashreplace").decode()
    sys.stderr.write(
        f"lockllm: a package it needs cannot be imported: {shown}\n"
        f"  fix   install lockllm in its own environment, and run it as `python -I -m lockllm`\n"
    )
    sys.exit(4)


if __name__ == "__main__":
    main()
