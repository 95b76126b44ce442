"""A Hub on loopback, as its clients know it: info, tree in pages, files with redirects to a storage of another origin, error codes.

It counts every request and every byte of a weight file. `fault` lets a test answer first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class File:
    """One file. Without `data` it is a weight file of `size` bytes that nobody may ask for."""

    data: bytes | None = None
    lfs: bool = False
    size: int = -1
    claimed: str = ""  # its sha256 where there is no data

    @property
    def length(self) -> int:
        return len(self.data) if self.data is not None else self.size

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest() if self.data is not None else self.claimed

    @property
    def pointer(self) -> bytes:
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.length}\n".encode()

    @property
    def oid(self) -> str:
        stored = self.pointer if self.lfs or self.data is None else self.data
        return hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()

    def row(self, path: str) -> dict[str, Any]:
        row: dict[str, Any] = {"type": "file", "oid": self.oid, "size": self.length, "path": path}
        if self.lfs:
            row["lfs"] = {"oid": self.sha256, "size": self.length, "pointerSize": len(self.pointer)}
            row["xetHash"] = hashlib.sha256(self.sha256.encode()).hexdigest()
        return row


@dataclass
class Repo:
    """A repository: its commits, what its branches and tags name, and who may read it."""

    commits: dict[str, dict[str, File]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False

    def push(self, files: Mapping[str, File], ref: str = "main") -> str:
        """A new commit of these files at a branch or tag; its name follows from their bytes."""
        told = json.dumps({path: [file.oid, file.sha256] for path, file in sorted(files.items())})
        commit = hashlib.sha1(told.encode()).hexdigest()
        self.commits[commit] = dict(files)
        self.refs[ref] = commit
        return commit

    def resolve(self, revision: str) -> str | None:
        return self.refs.get(revision) or (revision if revision in self.commits else None)


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    kind: str  # info, tree, file, storage, other
    path: str
    host: str
    authorization: str
    agent: str


Fault = Callable[["Handler", str], bool]
"""Given the request and its kind, answers it and says so, or leaves it."""


class Hub(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos: dict[str, Repo] = {}
        self.token = "hf_a-token-that-is-good"
        self.page = 1000
        self.requests: list[Asked] = []
        self.weight_bytes = 0
        self.fault: Fault | None = None
        self.over = threading.Event()  # set when the test ends: what was slow may end

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def storage(self) -> str:
        """The same server under another origin."""
        return f"http://localhost:{self.server_port}"

    def kinds(self) -> list[str]:
        return [each.kind for each in self.requests]

    def forget(self) -> None:
        self.requests.clear()
        self.weight_bytes = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        path = parts.path
        info = re.fullmatch(r"/api/models/(?P<repo>[^/]+(?:/[^/]+)?)(?:/revision/(?P<rev>[^/]+))?", path)
        tree = re.fullmatch(r"/api/models/(?P<repo>[^/]+(?:/[^/]+)?)/tree/(?P<rev>[^/]+)", path)
        file = re.fullmatch(r"/(?P<repo>[^/]+(?:/[^/]+)?)/resolve/(?P<rev>[^/]+)/(?P<path>.+)", path)
        store = re.fullmatch(r"/storage/(?P<repo>.+)/(?P<commit>[0-9a-f]{40})/(?P<path>.+)", path)
        kind = "tree" if tree else "info" if info else "storage" if store else "file" if file else "other"
        asked = Asked(
            kind,
            self.path,
            self.headers.get("Host", ""),
            self.headers.get("Authorization", ""),
            self.headers.get("User-Agent", ""),
        )
        self.server.requests.append(asked)
        if self.server.fault is not None and self.server.fault(self, kind):
            return
        if tree:
            self._tree(tree["repo"], _plain(tree["rev"]), urllib.parse.parse_qs(parts.query))
        elif info:
            self._info(info["repo"], _plain(info["rev"] or "main"))
        elif store:
            self._storage(store["repo"], store["commit"], _plain(store["path"]))
        elif file:
            self._file(file["repo"], _plain(file["rev"]), _plain(file["path"]))
        else:
            self.send(404, b"Not Found", {})

    def _info(self, name: str, revision: str) -> None:
        repo, commit = self._find(name, revision)
        if repo is None or commit is None:
            return
        body = {
            "_id": "64f0", "id": name, "modelId": name, "sha": commit, "private": repo.private,
            "gated": "manual" if repo.gated else False, "tags": [], "downloads": 7, "likes": 0,
            "createdAt": "2026-01-02T03:04:05.000Z", "lastModified": "2026-01-02T03:04:05.000Z",
            "siblings": [{"rfilename": path} for path in sorted(repo.commits[commit])],
        }  # fmt: skip
        self.json(body)

    def _tree(self, name: str, revision: str, query: Mapping[str, list[str]]) -> None:
        repo, commit = self._find(name, revision)
        if repo is None or commit is None:
            return
        files = repo.commits[commit]
        folders = sorted({path[:at] for path in files for at, char in enumerate(path) if char == "/"})
        rows = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in folders]
        rows += [file.row(path) for path, file in sorted(files.items())]
        start = int(query.get("cursor", ["0"])[0])
        end = start + (50 if query.get("expand") == ["true"] else self.server.page)
        headers = {}
        if end < len(rows):
            cursor = urllib.parse.urlencode({"recursive": "true", "expand": "false", "cursor": end})
            headers["Link"] = f'<{self.server.url}/api/models/{name}/tree/{revision}?{cursor}>; rel="next"'
        self.json(rows[start:end], headers)

    def _file(self, name: str, revision: str, path: str) -> None:
        repo, commit = self._find(name, revision)
        if repo is None or commit is None:
            return
        if repo.gated and not self.is_known:
            self.refuse(
                401, "GatedRepo", f"Access to model {name} is restricted. You must be authenticated to access it."
            )
            return
        file = repo.commits[commit].get(path)
        if file is None:
            self.refuse(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
            return
        headers = {"X-Repo-Commit": commit, "ETag": f'"{file.oid}"'}
        if file.lfs:
            headers |= {
                "X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(file.length),
                "Location": f"{self.server.storage}/storage/{name}/{commit}/{urllib.parse.quote(path)}?signature=s",
            }  # fmt: skip
            self.send(302, b"Found. Redirecting", headers)
        else:
            self.send(200, file.data or b"", headers)

    def _storage(self, name: str, commit: str, path: str) -> None:
        file = self.server.repos[name].commits[commit][path]
        if path.endswith((".safetensors", ".bin", ".gguf", ".pt")):
            self.server.weight_bytes += file.length
        self.send(200, file.data or b"", {"ETag": f'"{file.sha256}"'})

    def _find(self, name: str, revision: str) -> tuple[Repo | None, str | None]:
        """The repository and the commit; where one is missing, the refusal is sent already."""
        given = self.headers.get("Authorization", "")
        if given and not self.is_known:
            self.refuse(401, "", "Invalid credentials in Authorization header")
            return None, None
        repo = self.server.repos.get(name)
        if repo is None or (repo.private and not self.is_known):
            self.refuse(404 if self.is_known else 401, "RepoNotFound", "Repository not found")
            return None, None
        commit = repo.resolve(revision)
        if commit is None:
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repo, commit

    @property
    def is_known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {self.server.token}"

    def refuse(self, status: int, code: str, message: str, more: Mapping[str, str] = {}) -> None:
        headers = {**({"X-Error-Code": code} if code else {}), "X-Error-Message": message, **more}
        self.json({"error": message}, headers, status)

    def json(self, body: Any, headers: Mapping[str, str] = {}, status: int = 200) -> None:
        self.send(status, json.dumps(body).encode(), {"Content-Type": "application/json; charset=utf-8", **headers})

    def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _plain(text: str) -> str:
    return urllib.parse.unquote(text)


@contextlib.contextmanager
def running() -> Iterator[Hub]:
    """A stand-in that runs while the block does."""
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.over.set()
        hub.shutdown()
        hub.server_close()
        thread.join(5)
