"""Addresses of the web as they are shown: whole enough to find, and with no secret in them."""

from __future__ import annotations

import pytest

from lockllm.resolve.remote.web import origin_of, shown


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://host/a/@b?c=d", "https://host/a/@b"),
        ("http://me:secret@host/", "http://host/"),
        ("http://me:se@cret@host/", "http://host/"),
        ("http://me:se/cret@host/", "http://host/"),
        ("http://me:se?cret@host/", "http://host/"),
        ("http://me:se#cret@host/", "http://host/"),
        ("https://host?@other", "https://host"),
        ("//" * 30_000, "//" * 150),
    ],
)
def test_user_and_password_of_an_address_are_not_shown(url: str, said: str) -> None:
    assert shown(url) == said


def test_an_origin_is_scheme_host_and_port_however_they_are_written() -> None:
    assert origin_of("HTTPS://me@Host/a") == origin_of("https://host:443") == ("https", "host", 443)
    assert origin_of("http://host:x/") is origin_of("ftp://host/") is origin_of("http://[") is None
