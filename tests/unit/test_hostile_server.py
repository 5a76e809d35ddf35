"""A server that is somebody else's now: what it answers harms the controller in no way."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fleetbench.service import http

Answer = Callable[[BaseHTTPRequestHandler], None]
MODELS = {"data": [{"id": "m", "max_model_len": 5}]}


@contextmanager
def serving(answer: Answer) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            answer(self)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """The client has gone: that is what some of these tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server.server_port
        server.shutdown()


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def completions(body: bytes) -> Answer:
    """A server that is right in all but its completions."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        known = {"/v1/models": MODELS, "/version": {"version": "9" * 500 + "\x1b[2J"}}
        send(handler, json.dumps(known[handler.path]).encode() if handler.path in known else body)

    return answer


def test_it_cannot_make_the_controller_ask_somebody_else() -> None:
    asked: list[str] = []

    def inside(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        send(handler, json.dumps(MODELS).encode())

    with (
        serving(inside) as inner,
        serving(lambda h: send(h, b"", 307, Location=f"http://127.0.0.1:{inner}/admin?delete=all")) as port,
        pytest.raises(http.Unanswered, match="307"),
    ):
        http.ask(port, "m", timeout_s=5)
    assert asked == []


@pytest.mark.parametrize(
    "body", [b'{"choices": [5]}', b'{"choices": {"0": 1}}', b"[" * 200_000, b'{"choices": [{}]}', b"9" * 9000]
)
def test_an_answer_of_another_shape_is_no_answer(body: bytes) -> None:
    with serving(completions(body)) as port, pytest.raises(http.Unanswered):
        http.ask(port, "m", timeout_s=5)


def test_a_list_of_models_that_is_none_is_no_answer() -> None:
    with serving(lambda h: send(h, b'{"data": 5}')) as port, pytest.raises(http.Unanswered):
        http.ask(port, "m", timeout_s=5)


def test_what_it_says_of_itself_is_short_and_printable() -> None:
    text = "\x1b]0;owned\x07" * 1000
    with serving(completions(json.dumps({"choices": [{"text": text}]}).encode())) as port:
        served = http.ask(port, "m", timeout_s=5)
    assert served.completion.isprintable()
    assert served.version.isprintable()
    assert len(served.version) <= 60
    assert len(served.completion) <= 200


def test_a_byte_now_and_then_does_not_hold_the_controller() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        if handler.path != "/v1/completions":
            completions(b"")(handler)
            return
        send(handler, b"")
        for _ in range(300):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)

    began = time.monotonic()
    with serving(drip) as port, pytest.raises(http.Unanswered, match="within 1 s"):
        http.ask(port, "m", timeout_s=1)
    assert time.monotonic() - began < 5


def test_headers_of_an_answer_are_named_in_lower_case_and_cannot_move_the_cursor() -> None:
    body = json.dumps({"choices": [{"text": "ok"}]}).encode()
    asked: list[str | None] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.headers.get("X-Who"))
        send(handler, body, **{"X-Answered-By": "127.0.0.1:8102\x1b[2J" + "9" * 500})

    with serving(answer) as port:
        text, headers = http.complete(port, "m", headers={"X-Who": "1"})
    assert (text, asked) == ("ok", ["1"])
    assert headers["x-answered-by"].startswith("127.0.0.1:8102 [2J")
    assert len(headers["x-answered-by"]) <= 200


@pytest.mark.parametrize("name", [5, None, ["m"], {"m": 1}, True])
def test_a_model_whose_name_is_no_text_is_not_served_and_no_traceback(name: object) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        send(handler, json.dumps({"data": [{"id": name}, "m", {}]}).encode())

    for asked in ("", "5", str(name)):
        with serving(answer) as port, pytest.raises(http.Unanswered, match="serves another model"):
            http.ask(port, asked, timeout_s=5)
