"""What lies in the place of a file's content: a pointer, a web page, a server's error, or nothing. Pure.

A download that goes wrong leaves these: git without LFS, a login page, a 404 that was saved, a disk that was full.
"""

from __future__ import annotations

import json
import re

from lockllm.checkpoint.selection import (
    ADAPTER,
    CODE,
    CONFIG,
    ENGINE,
    INDEX,
    OTHER,
    PROCESSOR,
    PROJECTOR,
    QUANTIZATION,
    SAMPLING,
    TEMPLATE,
    TOKENIZER,
    WEIGHTS,
)

HEAD = 4096
"""Bytes at the beginning of a file that tell what it is."""
_POINTER = re.compile(rb"\s*version https?://(git-lfs\.github\.com|hawser)")
_HTML = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<!--.{0,2000}?-->\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_XML = re.compile(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?<(Error|ErrorResponse|html)\b", re.IGNORECASE)
_WORDS = re.compile(
    r"\s*(error:?\s+)?(entry not found|(repository|revision|file|page)? ?not found|unauthorized|forbidden|access (denied|to )"
    r"|invalid (username|credentials|token|api)|internal server error|bad gateway|gateway time-?out|service unavailable"
    r"|too many requests|rate limit|no healthy upstream|upstream (connect|request)|(4\d\d|5\d\d)\b)",
    re.IGNORECASE,
)
_ERROR_KEYS = frozenset({
    "error", "errors", "message", "detail", "details", "status", "statuscode", "status_code", "code", "path", "timestamp", "type",
    "error_type", "error_code", "error_description", "success", "title", "requestid", "request_id", "traceid", "name", "reason",
})  # fmt: skip
_TELLING = frozenset({"error", "errors", "message", "detail", "title", "error_description"})
_LONGEST_ERROR = 16_384
_FILLED = frozenset(
    {TEMPLATE, TOKENIZER, PROCESSOR, CONFIG, SAMPLING, QUANTIZATION, INDEX, ADAPTER, PROJECTOR, WEIGHTS, ENGINE}
)
_TEXTS = frozenset({TEMPLATE, TOKENIZER, PROCESSOR, CONFIG, SAMPLING, QUANTIZATION, INDEX, ADAPTER})
_MAY_BE_EMPTY = ("merges.txt", "added_tokens.json")


def problem(name: str, role: str, head: bytes, size: int) -> str:
    """What stands in the place of the content: a clause without the file's name; empty where it may be the content.

    `head`: the first bytes of the file.
    """
    if _POINTER.match(head):
        return "is a Git LFS pointer, not the content"
    if role == OTHER:
        return ""
    if _HTML.match(head):
        return "is a web page, not the content"
    if role == CODE:
        return ""
    if role in _FILLED and not head.strip(b" \t\r\n\0") and not name.endswith(_MAY_BE_EMPTY):
        return "is empty" if not size else "holds nothing but blanks or zeros"
    if _XML.match(head):
        return "is the error of a server, not the content"
    if role in _TEXTS or size <= _LONGEST_ERROR:
        return _error(role, head, size)
    return ""


def _error(role: str, head: bytes, size: int) -> str:
    if size > _LONGEST_ERROR or len(head) < min(size, HEAD):
        return ""
    text = head.decode("utf-8", "replace").strip()
    if text.startswith("{") and size <= HEAD:
        try:
            held = json.loads(text)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(held, dict) or not held:
            return ""
        told = [str(held[key]) for key in held if key.lower() in _TELLING and isinstance(held[key], (str, list, dict))]
        if told and all(key.lower() in _ERROR_KEYS for key in held):
            return f"is the error of a server, not the content: {told[0][:80]!r}"
        return ""
    plain = size <= 300 and text.count("\n") < 3 and "{{" not in text and "{%" not in text
    return f"is the error of a server, not the content: {text[:80]!r}" if plain and _WORDS.match(text) else ""
