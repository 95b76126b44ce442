"""Launch forms: which program, module or subcommand is which engine."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from lockllm.engines import Form


class Shape(msgspec.Struct, frozen=True):
    """One way of starting an engine: after the program come these words, then the engine's arguments."""

    engine: str
    words: tuple[str, ...] = ()  # a word in brackets may be left out: `[serve]`
    wrapper: str = ""  # the name for `engine.wrapper`; with engine "": what lies behind is unknown
    subcommand: str = ""
    never: frozenset[str] = frozenset()  # words that may not follow: another subcommand


_TRTLLM = Shape(
    "tensorrt-llm",
    ("[serve]",),
    subcommand="serve",
    never=frozenset({"disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve", "embedding_serve", "--help"}),
)

PROGRAMS: dict[str, tuple[Shape, ...]] = {
    "vllm": (Shape("vllm", ("serve",)),),
    "vllm-rs": (Shape("vllm", ("serve",)),),
    "sglang": (Shape("sglang", ("serve",)),),
    "llama-server": (Shape("llama.cpp"),),
    "llama": (Shape("llama.cpp", ("serve",)), Shape("llama.cpp", ("server",))),
    "text-generation-launcher": (Shape("tgi"),),
    "text-generation-router": (Shape("tgi", subcommand="router"),),
    "text-generation-server": (Shape("tgi", ("serve",), subcommand="shard"),),
    "tgi-entrypoint.sh": (Shape("tgi"),),
    "ollama": (
        Shape("ollama", ("serve",)),
        Shape("ollama", ("start",), subcommand="serve"),
        Shape("ollama", ("runner",)),
        Shape("ollama", ("create",)),
    ),
    "ollama_llama_server": (Shape("ollama", subcommand="runner"),),
    "trtllm-serve": (_TRTLLM,),
    "lmdeploy": (Shape("lmdeploy", ("serve", "api_server")),),
    "transformers": (Shape("transformers", ("serve",)),),
    "transformers-cli": (Shape("transformers", ("serve",)),),
    "tritonserver": (Shape("", wrapper="triton"),),
    "mlc_llm": (Shape("", ("serve",), wrapper="mlc-llm"),),
    "bentoml": (Shape("", ("serve",), wrapper="bentoml"),),
    "djl-serving": (Shape("", wrapper="djl"),),
    "serve": (Shape("", ("run",), wrapper="ray-serve"), Shape("", ("deploy",), wrapper="ray-serve")),
    "lms": (Shape("", ("server", "start"), wrapper="lm-studio"),),
    "nim-serve": (Shape("", wrapper="nim"),),
}
"""Base name of a program -> its shapes, most precise first."""

MODULES: dict[str, tuple[Shape, ...]] = {
    "vllm.entrypoints.openai.api_server": (Shape("vllm", subcommand="serve"),),
    "vllm.entrypoints.api_server": (Shape("vllm", subcommand="api_server"),),
    "vllm.entrypoints.cli.main": (Shape("vllm", ("serve",)),),
    "vllm.entrypoints.cli": (Shape("vllm", ("serve",)),),
    "vllm": (Shape("vllm", ("serve",)),),
    "sglang.launch_server": (Shape("sglang", subcommand="serve"),),
    "sglang.cli.main": (Shape("sglang", ("serve",)),),
    "sglang": (Shape("sglang", ("serve",)),),
    "dynamo.vllm": (Shape("vllm", wrapper="dynamo", subcommand="serve"),),
    "dynamo.sglang": (Shape("sglang", wrapper="dynamo", subcommand="serve"),),
    "dynamo.trtllm": (Shape("", wrapper="dynamo"),),
    "sglang_router.launch_server": (Shape("sglang", wrapper="sglang-router", subcommand="serve"),),
    "llama_cpp.server": (Shape("llama-cpp-python", subcommand="serve"),),
    "llama_cpp.server.__main__": (Shape("llama-cpp-python", subcommand="serve"),),
    "lmdeploy": (Shape("lmdeploy", ("serve", "api_server")),),
    "lmdeploy.serve.openai.api_server": (Shape("lmdeploy", subcommand="api_server"),),
    "tensorrt_llm.commands.serve": (_TRTLLM,),
    "transformers.commands.transformers_cli": (Shape("transformers", ("serve",)),),
    "transformers.cli.transformers": (Shape("transformers", ("serve",)),),
    "transformers": (Shape("transformers", ("serve",)),),
    "huggingfaceserver": (Shape("", wrapper="kserve"),),
    "mlc_llm": (Shape("", ("serve",), wrapper="mlc-llm"),),
    "ray.serve.scripts": (Shape("", ("run",), wrapper="ray-serve"),),
}
"""Module run by `python -m` (or its file) -> its shapes."""

DEFAULT: dict[str, tuple[str, ...]] = {
    "vllm": ("vllm", "serve"),
    "sglang": ("sglang", "serve"),
    "llama.cpp": ("llama-server",),
    "tgi": ("text-generation-launcher",),
    "ollama": ("ollama",),
    "tensorrt-llm": ("trtllm-serve", "serve"),
    "lmdeploy": ("lmdeploy", "serve", "api_server"),
    "transformers": ("transformers", "serve"),
    "llama-cpp-python": ("python3", "-m", "llama_cpp.server"),
}
"""The words that an image of an engine puts before the arguments that it is given."""

MODULE_OF_VLLM = ("python3", "-m", "vllm.entrypoints.openai.api_server")
"""What vLLM's images ran before 0.11.1, with the model as an option."""

_PYTHON = re.compile(r"(python|pypy)(\d+(\.\d+)*)?[a-z]?(\.exe)?\Z")
_PYTHON_VALUES = frozenset({"-W", "-X", "--check-hash-based-pycs"})


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A shape that a command line has."""

    shape: Shape
    program: tuple[str, ...]
    args: tuple[str, ...]

    @property
    def form(self) -> Form | None:
        """The launch form, or None where the engine behind is unknown."""
        if not self.shape.engine:
            return None
        word = self.shape.subcommand or (self.shape.words[-1] if self.shape.words else "")
        return Form(engine=self.shape.engine, args=self.args, program=self.program, subcommand=word)


def recognise(argv: Sequence[str], engine: str | None = None) -> Form | None:
    """The launch form that an unwrapped command line is, or None. With `engine` only a form of that engine counts."""
    found = find(argv)
    form = found.form if found else None
    return form if form is None or engine in (None, form.engine) else None


def find(argv: Sequence[str]) -> Found | None:
    """The shape of a command line, those of hosts whose engine is unknown included."""
    if not argv or argv[0].startswith("-"):
        return None
    module = python_module(argv)
    if module is not None:
        name, start = module
        return _match(MODULES.get(name, ()), argv, start)
    name, start = python_script(argv)
    shapes = _of_llama(argv[start - 1], name) or PROGRAMS.get(name, ())
    if not shapes and name.endswith(".py"):
        shapes = _module_file(argv[start - 1])
    return _match(shapes, argv, start)


def base(path: str) -> str:
    """The last component of a path, `.exe` left out."""
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1].removesuffix(".exe")


def is_python(program: str) -> bool:
    """Whether a program is a Python interpreter."""
    return bool(_PYTHON.match(base(program)))


def python_module(argv: Sequence[str]) -> tuple[str, int] | None:
    """`python -m NAME`: the name and where its arguments begin."""
    if not argv or not is_python(argv[0]):
        return None
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "-":
        word = argv[at]
        if word in _PYTHON_VALUES:
            at += 2
        elif re.match(r"-[bBdEiIOPqsSuvx]*m\Z", word):
            return (argv[at + 1], at + 2) if at + 1 < len(argv) else None
        elif re.match(r"-[bBdEiIOPqsSuvx]*m[A-Za-z_]", word):
            return word[word.index("m") + 1 :], at + 1
        elif re.match(r"-[bBdEiIOPqsSuvx]*c", word):
            return None
        else:
            at += 1
    return None


def python_script(argv: Sequence[str]) -> tuple[str, int]:
    """The program proper and where its arguments begin: `python /usr/bin/vllm serve` is `vllm`, 2."""
    if not is_python(argv[0]):
        return base(argv[0]), 1
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "-":
        if re.match(r"-[bBdEiIOPqsSuvx]*c", argv[at]):
            return base(argv[0]), 1
        at += 2 if argv[at] in _PYTHON_VALUES else 1
    return (base(argv[at]), at + 1) if at < len(argv) else (base(argv[0]), 1)


def _match(shapes: Sequence[Shape], argv: Sequence[str], start: int) -> Found | None:
    for shape in shapes:
        at = start
        for word in shape.words:
            optional = word.startswith("[")
            if at < len(argv) and argv[at] == word.strip("[]"):
                at += 1
            elif not optional:
                break
        else:
            if at < len(argv) and argv[at] in shape.never:
                continue
            return Found(shape=shape, program=tuple(argv[:at]), args=tuple(argv[at:]))
    return None


def _module_file(path: str) -> tuple[Shape, ...]:
    dotted = path.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
    for name, shapes in MODULES.items():
        if "." in name and dotted.endswith("." + name):
            return shapes
    return ()


def _of_llama(path: str, name: str) -> tuple[Shape, ...]:
    if "/lib/ollama/" in path and name.startswith("llama-server"):
        return (Shape("ollama", subcommand="llama-server"),)
    if re.match(r"llama-server([-_.][\w.-]+)?\Z", name):
        return PROGRAMS["llama-server"]
    if name == "server" and re.search(r"llama[._-]?cpp", path):
        return PROGRAMS["llama-server"]
    return ()
