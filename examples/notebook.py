"""lockllm from Python, cell by cell: open it as a notebook (Jupytext, VS Code), or run `python examples/notebook.py`."""

# %% [markdown]
# A folder to work in: a tiny checkpoint, and a spec that says how it is to be served.

# %%
import json
import shutil
import tempfile
from pathlib import Path

import lockllm

TINY = Path(__file__).parent / "tiny"
folder = Path(tempfile.mkdtemp(prefix="lockllm-"))
shutil.copytree(TINY / "model", folder / "model")
(folder / "llm.toml").write_text("""\
[checkpoint]
path = "model"

[engine]
name = "vllm"
version = "0.10.2"

[serve]
max_model_len = 512
""")

# %% [markdown]
# Resolve the spec into a lock. Nothing is written until it is saved.

# %%
spec = lockllm.load_spec(folder / "llm.toml")
lock = lockllm.lock(spec, gpu="none", offline=True)
lockllm.save(lock, folder / "llm.lock")
print(f"{len(lock.values)} facts pinned, {len(lock.unpinned)} not")
print("dtype:", lock.get("serve.dtype"))
print("fingerprint:", lockllm.fingerprint(lock))

# %% [markdown]
# Verify a server that is about to be started: its command line stands in for a running process. vLLM need not be installed here, so
# only what the files show is judged; leave `only` out on the host that serves.

# %%
lock = lockllm.load_lock(folder / "llm.lock")
planned = ["vllm", "serve", str(folder / "model"), "--max-model-len", "512"]
shown = ["checkpoint", "chat_template"]
report = lockllm.verify(lock, command=planned, only=shown, gpu="none")
print(report.status, dict(report.counts))
assert report.exit_code == 0

# %% [markdown]
# Somebody edits the chat template. Each difference says what it does to the output and how to fix it.

# %%
template = folder / "model" / "chat_template.jinja"
template.write_text(template.read_text().replace("assistant", "Assistant"))
report = lockllm.verify(lock, command=planned, only=shown, gpu="none")
for result in report.results:
    if result.status is lockllm.Status.MISMATCH and result.because is None:
        print(f"{result.fact.key}: expected {result.expected}, found {result.found}; {result.fix}")
assert report.exit_code == 1

# %% [markdown]
# The same report as a person or a program reads it: text, markdown, json, junit, sarif, github.

# %%
print(lockllm.dump(report, "markdown").splitlines()[0])
document = json.loads(lockllm.dump(report, "json"))
print(document["status"], document["exit_code"])

# %% [markdown]
# If the change is meant, lock again and review what moved.

# %%
new = lockllm.lock(spec, old=lock, gpu="none", offline=True)
changes = lockllm.diff(lock, new)
print(changes.verdict)
for change in changes.changes:
    if change.because is None:
        followers = [each for each in changes.changes if each.because == change.fact.key]
        print(f"{change.change}: {change.fact.key} ({change.kind.value}); {len(followers)} more follow from it")

# %% [markdown]
# What a fact is, and what the template makes of a conversation.

# %%
print(lockllm.explain("serve.max_model_len", engine="vllm").about)
conversation = {"messages": [{"role": "user", "content": "Hello"}], "add_generation_prompt": True}
rendering = lockllm.render(folder / "model", request=conversation)
print(rendering.source, repr(rendering.text))

# %% [markdown]
# What cannot be done is an exception that says what is wrong, where, and how to fix it.

# %%
try:
    lockllm.load_lock(folder / "missing.lock")
except lockllm.LockllmError as error:
    print(error.what, "|", error.where, "|", error.fix)

shutil.rmtree(folder)
