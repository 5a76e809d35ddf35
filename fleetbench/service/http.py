"""What a server says about itself over HTTP: model, version, and one real completion.

Requests go through the SSH connection (a loopback port of the controller), with time limits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import requests
import urllib3

from fleetbench.errors import FleetbenchError, one_line

_LIMIT = 2_000_000
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What answered: model ids, their length limit, vLLM's version, and the text of one completion.

    `root` is the name or path that the server was started with, where it says so.
    """

    models: tuple[str, ...]
    max_model_len: int | None
    version: str
    completion: str
    root: str = ""


class Unanswered(FleetbenchError):
    """The server's port is open, but a request was not answered as it should be."""


def ask(port: int, model: str, *, timeout_s: float = 60) -> Served:
    """Ask a server on a loopback port who it is, and for one completion of `model` (empty: the first
    that it names).

    Raises `Unanswered` with the status or the error. A server may be healthy and still die on its first
    request, so the completion belongs to readiness.
    """
    listing = _json("GET", port, "/v1/models", timeout_s=15)
    entries = listing.get("data") if isinstance(listing, dict) else None
    found = [e for e in entries if isinstance(e, dict)][:100] if isinstance(entries, list) else []
    models: dict[str, dict[str, Any]] = {}
    for each in found:
        if isinstance(each.get("id"), str):
            models.setdefault(each["id"], each)
    names = tuple(models)
    model = model or (names[0] if names else "")
    if model not in models:
        raise Unanswered(
            f"port {port} serves another model",
            cause=f"asked for {model}, /v1/models names {', '.join(names) or 'none'}",
        )
    limit, root = models[model].get("max_model_len"), models[model].get("root")
    version = _json("GET", port, "/version", timeout_s=15)
    completion, _ = complete(port, model, timeout_s=timeout_s)
    return Served(
        models=names,
        max_model_len=limit if isinstance(limit, int) else None,
        version=one_line(str(version.get("version", "")), 60) if isinstance(version, dict) else "",
        completion=completion,
        root=one_line(root, 300) if isinstance(root, str) else "",
    )


def complete(
    port: int, model: str, *, headers: Mapping[str, str] = NO_HEADERS, timeout_s: float = 60
) -> tuple[str, Mapping[str, str]]:
    """Ask for one short completion, with further `headers`; return its text, and the answer's headers by name
    in lower case. Raises `Unanswered`."""
    body = {"model": model, "prompt": "The", "max_tokens": 4, "temperature": 0}
    path = "/v1/completions"
    content, answered = _answer("POST", port, path, timeout_s=timeout_s, body=body, headers=headers)
    answer = _parsed(content, path)
    choices = answer.get("choices") if isinstance(answer, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or "text" not in first:
        raise Unanswered("the first completion has no text", cause=one_line(str(answer)[:2000]))
    return one_line(str(first["text"]), 200), answered


def metrics(port: int, *, timeout_s: float = 10) -> str:
    """Return what /metrics of a server on a loopback port answers; Unanswered when it does not."""
    content, _ = _answer("GET", port, "/metrics", timeout_s=timeout_s)
    return content.decode("utf-8", "replace")


def _json(method: str, port: int, path: str, *, timeout_s: float) -> Any:
    content, _ = _answer(method, port, path, timeout_s=timeout_s)
    return _parsed(content, path)


def _parsed(content: bytes, path: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise Unanswered(f"{path} was not answered", cause=str(exc)) from exc


def _answer(
    method: str,
    port: int,
    path: str,
    *,
    timeout_s: float,
    body: object = None,
    headers: Mapping[str, str] = NO_HEADERS,
) -> tuple[bytes, Mapping[str, str]]:
    url = f"http://127.0.0.1:{port}{path}"
    session = requests.Session()
    session.trust_env = False  # a proxy of the controller has no business with a forwarded port
    # A redirect would make this machine ask whatever the host names, inside the controller's network; an
    # encoded answer could unfold to any size.
    sent = {**headers, "Accept-Encoding": "identity"}
    options: dict[str, Any] = {"allow_redirects": False, "headers": sent}
    give_up = time.monotonic() + timeout_s
    try:
        with session.request(
            method, url, json=body, timeout=(10, timeout_s), stream=True, **options
        ) as response:
            content = b""
            # The timeout counts for each read: a server that sends a byte a minute is ended here.
            while len(content) < _LIMIT and (part := response.raw.read1(65536, decode_content=False)):
                content += part
                if time.monotonic() > give_up:
                    raise Unanswered(f"{path} was not answered within {timeout_s:g} s")
            if response.status_code != 200:
                raise Unanswered(
                    f"{path} answered {response.status_code}", cause=content.decode("utf-8", "replace")
                )
            return content, {name.lower(): one_line(text, 200) for name, text in response.headers.items()}
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as exc:
        raise Unanswered(f"{path} was not answered", cause=str(exc)) from exc
    finally:
        session.close()
