"""nginx in front of several servers: golden texts, systemd's opinion, and hostile values that stay out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fleetbench.errors import UsageError
from fleetbench.sweep.balancer import Balancer, config_path, config_text, spec_hash, unit_text

GOLDEN = Path(__file__).parent.parent / "fixtures" / "units"
BALANCER = Balancer(
    port=8101, bind="0.0.0.0", members=(8102, 8103, 8105, 8106), user="vllm", streams=1000, cpus=96
)


def directives(text: str) -> list[str]:
    """The configuration without comments, one directive an element."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


@pytest.mark.parametrize(
    ("name", "render"), [("balancer.conf", config_text), ("balancer.service", unit_text)]
)
def test_it_is_rendered_to_the_texts_of_the_golden_files(name: str, render: object) -> None:
    assert callable(render)
    golden = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(render(BALANCER))
    assert render(BALANCER) == golden.read_text()


def test_systemd_accepts_the_unit_without_a_word(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "fleetbench-test-balancer.service"
    unit.write_text(unit_text(replace(BALANCER, user="root")))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, complaints) == (0, [])


def test_a_persistent_one_comes_back_at_boot_and_leaves_out_a_server_that_is_down(tmp_path: Path) -> None:
    service = replace(BALANCER, port=8001, members=(8002, 8003), persistent=True, promoted="RUN/2 9 tok/s")
    assert service.unit_path == "/etc/systemd/system/vllm-8001.service"
    assert service.config_path == "/etc/fleetbench/vllm-8001.conf"
    text, configuration = unit_text(service), config_text(service)
    for line in ("Restart=always", "WantedBy=multi-user.target", "StartLimitBurst=5"):
        assert f"\n{line}\n" in text
    assert "\nX-Fleetbench-Promoted=RUN/2 9 tok/s\nX-Fleetbench-Servers=8002,8003\n" in text
    assert "/run/fleetbench" not in text
    assert "trial" not in text.replace("RUN/2", "") + configuration
    assert "server 127.0.0.1:8002 max_fails=1 fail_timeout=5s;" in directives(configuration)
    assert "proxy_next_upstream error timeout;" in directives(configuration)
    assert spec_hash(service) == spec_hash(replace(service, promoted=""))
    assert spec_hash(service) != spec_hash(replace(service, members=(8002, 8004)))
    if shutil.which("systemd-analyze") is None:
        return
    unit = tmp_path / "fleetbench-test-front.service"
    unit.write_text(unit_text(replace(service, user="root")))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []


def test_it_is_a_sweep_unit_by_name_and_place_and_never_restarts() -> None:
    assert BALANCER.unit == "vllm-sweep-8101.service"
    assert BALANCER.unit_path == "/run/systemd/system/vllm-sweep-8101.service"
    assert config_path(BALANCER.unit) == BALANCER.config_path == "/run/fleetbench/vllm-sweep-8101.conf"
    text = unit_text(BALANCER)
    assert "Restart=no\n" in text
    assert "[Install]" not in text
    assert "User=vllm\n" in text
    assert text.count("/etc/nginx") == config_text(BALANCER).count("include") == 0


def test_the_configuration_is_checked_by_nginx_itself_before_it_is_used() -> None:
    keys = [line.partition("=")[0] for line in unit_text(BALANCER).splitlines()]
    assert keys.index("ExecStartPre") < keys.index("ExecStart")
    assert "ExecStartPre=/usr/bin/env /usr/sbin/nginx -p /run/vllm-sweep-8101/ " in unit_text(BALANCER)
    assert unit_text(BALANCER).count(" -t -q\n") == 1


def test_every_place_that_nginx_writes_to_is_the_units_own() -> None:
    paths = re.findall(r"(?:_temp_path|pid) ([^;]+);", config_text(BALANCER))
    assert len(paths) == 6
    assert all(path.startswith("/run/vllm-sweep-8101/") for path in paths)
    assert "RuntimeDirectory=vllm-sweep-8101\n" in unit_text(BALANCER)


def test_each_server_is_named_once_and_none_is_ever_left_out_or_asked_again() -> None:
    lines = directives(config_text(BALANCER))
    assert [line for line in lines if line.startswith("server ") and "{" not in line] == [
        f"server 127.0.0.1:{port} max_fails=0;" for port in BALANCER.members
    ]
    for wanted in ("proxy_next_upstream off;", "least_conn;", "proxy_buffering off;", "access_log off;"):
        assert lines.count(wanted) == 1
    assert any(line.startswith("zone ") for line in lines), "workers would count for themselves"


@pytest.mark.parametrize("streams", [1, 64, 1000, 20_000])
@pytest.mark.parametrize("cpus", [0, 1, 2, 256])
def test_one_worker_alone_has_room_for_every_stream(streams: int, cpus: int) -> None:
    balancer = replace(BALANCER, streams=streams, cpus=cpus)
    assert balancer.connections > 2 * streams
    assert balancer.files > balancer.connections
    assert 1 <= balancer.workers <= 16
    assert f"LimitNOFILE={balancer.files}\n" in unit_text(balancer)
    assert f"worker_rlimit_nofile {balancer.files};" in directives(config_text(balancer))


def test_a_million_streams_do_not_fill_the_memory_with_tables() -> None:
    assert replace(BALANCER, streams=1_000_000).connections == 131_072


@pytest.mark.parametrize(
    ("bind", "listen"),
    [
        ("0.0.0.0", "0.0.0.0:8101"),
        ("127.0.0.1", "127.0.0.1:8101"),
        ("::", "[::]:8101 ipv6only=off"),
        ("::1", "[::1]:8101"),
        ("2001:DB8:0::7", "[2001:db8::7]:8101"),
        ("gpu-01.example", "gpu-01.example:8101"),
    ],
)
def test_it_listens_where_a_single_server_would(bind: str, listen: str) -> None:
    lines = directives(config_text(replace(BALANCER, bind=bind)))
    assert f"listen {listen} reuseport backlog=65535;" in lines


@pytest.mark.parametrize(
    "bind", ["", "*", "0.0.0.0;}", "a b", "a\nb", "$host", "unix:/tmp/x", "fe80::1%eth0", "-x", "{", "[::]"]
)
def test_an_address_that_could_be_more_than_that_is_refused(bind: str) -> None:
    with pytest.raises(UsageError, match="nginx cannot listen on"):
        config_text(replace(BALANCER, bind=bind))


@pytest.mark.parametrize(
    "changed",
    [
        {"user": "vllm\nExecStartPre=/bin/true"},
        {"user": "a b"},
        {"user": ""},
        {"program": "nginx"},
        {"program": "/usr/sbin/nginx -x"},
        {"program": "/usr/sbin/%n"},
        {"program": "/opt/../tmp/nginx"},
        {"program": "/usr/sbin/nginx\n"},
        {"members": ()},
        {"members": (8102, 8102)},
        {"members": (8101,)},
        {"members": (0,)},
        {"members": (70_000,)},
    ],
)
def test_values_that_could_break_out_of_the_texts_are_refused(changed: dict[str, object]) -> None:
    balancer = replace(BALANCER, **changed)  # type: ignore[arg-type]
    for render in (unit_text, config_text, spec_hash):
        with pytest.raises(UsageError):
            render(balancer)


def test_the_hash_is_over_unit_and_configuration_and_stands_in_the_unit() -> None:
    assert f"Environment=FLEETBENCH_SPEC={spec_hash(BALANCER)}\n" in unit_text(BALANCER)
    for changed in ({"streams": 2000}, {"members": (8102, 8103)}, {"bind": "127.0.0.1"}, {"user": "other"}):
        assert spec_hash(replace(BALANCER, **changed)) != spec_hash(BALANCER)  # type: ignore[arg-type]
