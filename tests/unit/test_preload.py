"""The preloaded bench client and the program that hands over to it, as the processes that they are."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from preloaded_site import IS_ROOT, PROGRAMS, Site, alive, until

NOBODY = 65534


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.close()


def test_an_execution_is_a_child_of_the_process_that_imported_everything(site: Site) -> None:
    process = site.preload()
    assert site.run("one", "--seed", "7", no_proxy="10.0.0.1") == 0
    assert site.noted("one") == ("python, preloaded", "")
    assert site.imports == [process.pid]
    seen = site.seen("one")
    assert seen["pid"] not in (process.pid, os.getpid())
    assert (site.out("one") / "stderr").read_text() == "words\n"


def test_an_execution_sees_what_the_plain_command_sees(site: Site) -> None:
    words = ("--seed", "7", "--model", "a b")
    assert site.run("plain", *words, directory=site.place / "nowhere", no_proxy="10.0.0.1") == 0
    site.preload()
    assert site.run("handed", *words, no_proxy="10.0.0.1", INVOCATION_ID="of this unit") == 0
    plain, handed = dict(site.seen("plain")), dict(site.seen("handed"))
    assert handed["environment"].pop("INVOCATION_ID") == "of this unit"
    for part in ("argv", "path", "environment", "imported", "main", "signals", "stdin", "threads"):
        assert handed[part] == plain[part], part
    assert handed["directory"] == str(site.out("handed"))
    assert "OPENBLAS_NUM_THREADS" not in handed["environment"]


def test_executions_draw_random_numbers_of_their_own_and_leave_nothing_to_each_other(site: Site) -> None:
    site.preload()
    for name in ("one", "two"):
        assert site.run(name) == 0
    one, two = site.seen("one"), site.seen("two")
    assert one["random"] != two["random"]
    assert one["pid"] != two["pid"]


@pytest.mark.parametrize(
    ("word", "status"), [("--status=0", 0), ("--status=3", 3), (f"--signal={signal.SIGKILL:d}", 137)]
)
def test_the_status_is_that_of_the_plain_command_in_a_shell(site: Site, word: str, status: int) -> None:
    site.preload()
    assert site.run("one", word) == status
    assert site.noted("one")[0] == "python, preloaded"


def test_two_executions_at_once_do_not_wait_for_each_other(site: Site) -> None:
    site.preload()
    stays = site.begin("stays", "--stay")
    until((site.out("stays") / "child").exists)
    assert site.run("other", "--status=4") == 4
    assert stays.poll() is None


def test_when_the_unit_is_killed_so_is_everything_that_it_handed_over(site: Site) -> None:
    process = site.preload()
    stays = site.begin("stays", "--stay")
    until((site.out("stays") / "child").exists)
    pid, child = site.seen("stays")["pid"], int((site.out("stays") / "child").read_text())
    assert alive(pid)
    assert alive(child)
    stays.kill()
    until(lambda: not alive(pid) and not alive(child))
    assert process.poll() is None
    assert site.run("next") == 0
    assert site.noted("next")[0] == "python, preloaded"


def test_an_execution_does_not_survive_the_process_that_it_was_forked_from(site: Site) -> None:
    process = site.preload()
    stays = site.begin("stays", "--stay")
    until((site.out("stays") / "child").exists)
    pid = site.seen("stays")["pid"]
    process.kill()
    assert stays.wait(20) == 75
    until(lambda: not alive(pid))
    assert "the preloaded client was killed in the middle" in (site.out("stays") / "stderr").read_text()


def test_waiting_for_an_import_that_goes_on_costs_less_than_another_one(site: Site) -> None:
    site.on_import("while not os.path.exists(os.path.join(HERE, 'go')): time.sleep(0.01)")
    site.preload(ready=False)
    waits = site.begin("waits")
    until(lambda: bool(site.imports))
    assert waits.poll() is None
    (site.bin / "go").touch()
    assert waits.wait(20) == 0
    assert site.noted("waits") == ("python, preloaded", "")


def test_without_a_preloaded_process_the_command_is_executed(site: Site) -> None:
    assert site.run("one", "--status=5", directory=site.place / "nowhere") == 5
    assert site.noted("one") == ("python", "it is not running")
    assert len(site.imports) == 1


def test_no_preloaded_process_is_looked_for_where_none_is_meant(site: Site) -> None:
    assert site.run("one", "--status=5", directory=Path()) == 5
    site.begin("rust", directory=Path())
    empty = [sys.executable, "-I", "-S", str(PROGRAMS / "handover.py"), "", "rust", str(site.vllm)]
    subprocess.run([*empty, "bench", "serve"], cwd=site.out("one"), check=True, capture_output=True)
    assert site.noted("one") == ("rust", "")


def test_a_command_that_is_not_there_is_said(site: Site) -> None:
    assert site.run("one", directory=site.place / "nowhere", command=site.place / "vllm") == 127
    assert "No such file" in (site.out("one") / "stderr").read_text()


def test_an_import_that_fails_leaves_everything_as_it_was(site: Site) -> None:
    site.on_import("if '--help' in sys.argv: raise RuntimeError('Failed to infer device type')")
    process = site.preload(ready=False)
    assert site.run("one") == 0
    assert site.noted("one")[0] == "python"
    assert process.wait(20) == 1
    assert process.stderr is not None
    assert "Failed to infer device type" in process.stderr.read()


def test_what_is_no_python_program_is_executed_as_ever(site: Site) -> None:
    site.vllm.write_text("#!/bin/sh\necho '{}'; exit 6\n")
    site.preload(ready=False)
    assert site.run("one") == 6
    assert site.noted("one")[0] == "python"


def test_a_process_with_threads_is_not_forked(site: Site) -> None:
    site.on_import("threading.Thread(target=time.sleep, args=(600,), daemon=True).start()")
    process = site.preload(ready=False)
    assert process.wait(20) == 1
    assert process.stderr is not None
    assert "not forked: it has threads" in process.stderr.read()
    assert site.run("one") == 0
    assert site.noted("one")[0] == "python"


def test_the_thread_that_the_cuda_driver_starts_keeps_nobody_from_a_fork(site: Site) -> None:
    name = "open(f'/proc/self/task/{threading.get_native_id()}/comm', 'w').write('cuda00001800007')"
    site.on_import(
        f"threading.Thread(target=lambda: ({name}, time.sleep(600)), daemon=True).start(); time.sleep(0.5)"
    )
    site.preload()
    assert site.run("one") == 0
    assert site.noted("one")[0] == "python, preloaded"


def test_a_process_that_holds_a_gpu_does_not_stay(site: Site) -> None:
    text = (PROGRAMS / "preloaded.py").read_text()
    assert text.count('"/dev/nvidia-uvm"') == 1
    changed = site.place / "preloaded.py"
    changed.write_text(text.replace('"/dev/nvidia-uvm"', '"/dev/full"'))
    site.on_import("global held; held = open('/dev/full', 'wb')")
    process = site.preload(ready=False, program=changed)
    assert process.wait(20) == 1
    assert process.stderr is not None
    assert "it holds /dev/full" in process.stderr.read()


def test_another_venv_than_the_imported_one_is_executed(site: Site) -> None:
    site.preload()
    other = site.bin / "vllm-other"
    other.write_text(site.vllm.read_text())
    other.chmod(0o755)
    assert site.run("one", command=other) == 0
    assert site.noted("one") == ("python", f"it has imported {site.vllm}")


def test_a_venv_that_was_made_anew_is_imported_anew(site: Site) -> None:
    site.preload()
    text = site.vllm.read_text()
    site.vllm.unlink()
    site.vllm.write_text(text)
    site.vllm.chmod(0o755)
    os.utime(site.vllm, ns=(1, 1))
    assert site.run("one") == 0
    assert site.noted("one") == ("python", "the venv was made anew after the import")


def test_another_environment_than_the_imported_one_is_not_taken_over(site: Site) -> None:
    site.preload()
    assert site.run("one", HF_HOME="/other", HF_HUB_OFFLINE="1") == 0
    assert site.noted("one") == ("python", "its environment differs: HF_HOME HF_HUB_OFFLINE")
    assert site.seen("one")["environment"]["HF_HOME"] == "/other"


def test_a_credential_is_the_one_of_the_unit_that_the_execution_lives_in(site: Site) -> None:
    mine = {"CREDENTIALS_DIRECTORY": "/run/credentials/a", "HF_TOKEN_PATH": "/run/credentials/a/hf_token"}
    site.preload(**mine)
    others = {name: path.replace("/a", "/b") for name, path in mine.items()}
    assert site.run("one", **others) == 0
    assert site.noted("one")[0] == "python, preloaded"
    environment = site.seen("one")["environment"]
    assert {name: environment[name] for name in mine} == mine
    assert site.run("two") == 0
    assert site.noted("two") == ("python", "its environment differs: CREDENTIALS_DIRECTORY HF_TOKEN_PATH")


def test_a_directory_that_others_can_enter_is_not_trusted(site: Site) -> None:
    site.preload()
    site.sockets.chmod(0o755)
    assert site.run("one") == 0
    assert site.noted("one") == ("python", f"{site.sockets} is not this user's alone")
    link = site.place / "link"
    link.symlink_to(site.sockets)
    site.sockets.chmod(0o700)
    assert site.run("two", directory=link) == 0
    assert site.noted("two")[0] == "python"


@pytest.mark.skipif(not IS_ROOT, reason="needs root to be another user")
def test_nothing_is_handed_over_to_another_user(site: Site) -> None:
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(str(site.sockets / "socket"))
        code = "import os, socket, sys, time; os.setuid(int(sys.argv[1])); socket.socket(fileno=0).listen(); "
        code += "os.write(1, b'listens\\n'); time.sleep(600)"
        argv = [sys.executable, "-c", code, str(NOBODY)]
        with subprocess.Popen(argv, stdin=planted.fileno(), stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            (site.sockets / "ready").touch()
            assert site.run("one") == 0
            other.kill()
    assert site.noted("one") == ("python", "its socket is another user's")


@pytest.mark.skipif(not IS_ROOT, reason="needs root to be another user")
def test_another_user_is_refused_who_can_reach_the_socket(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.preload()
    (site.sockets / "socket").chmod(0o777)
    site.sockets.chmod(0o711)
    monkeypatch.chdir(site.sockets)
    with socket.socket(socket.AF_UNIX) as connection:
        os.seteuid(NOBODY)
        try:
            connection.connect("socket")
        finally:
            os.seteuid(0)
        assert json.loads(connection.recv(1000)) == {"refused": "another user asks"}


def test_a_listener_that_does_not_answer_is_not_waited_for(site: Site) -> None:
    hurried = site.place / "handover.py"
    text = (PROGRAMS / "handover.py").read_text()
    assert text.count("\nANSWER_S = 10.0\n") == 1
    hurried.write_text(text.replace("\nANSWER_S = 10.0\n", "\nANSWER_S = 0.1\n"))
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(site.sockets / "socket"))
        silent.listen()
        (site.sockets / "ready").touch()
        assert site.run("one", "--status=2", program=hurried) == 2
    assert site.noted("one") == ("python", "it does not answer")


@pytest.mark.parametrize(
    "words", [b"[1]\n", b"nonsense\n", b"{}\n", b'{"refused": "full"}\n', b"\xff" * 20_000]
)
def test_a_listener_that_speaks_otherwise_is_left_alone(site: Site, words: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as strange:
        strange.bind(str(site.sockets / "socket"))
        strange.listen()
        started = site.begin("one", "--status=2")
        connection, _ = strange.accept()
        with connection:
            connection.sendall(words)
            assert started.wait(20) == 2
    assert site.noted("one")[0] == "python"


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"x",
        b"\xff" * 8,
        (5).to_bytes(8) + b"[[[[[",
        (2).to_bytes(8) + b"[]",
        (10**5).to_bytes(8) + b"[" * 10**5,
    ],
)
def test_nonsense_does_not_end_the_preloaded_process(site: Site, words: bytes) -> None:
    process = site.preload()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(site.sockets / "socket"))
        assert json.loads(connection.recv(1000)) == {"ready": True}
        with Path(os.devnull).open("w") as nothing:
            socket.send_fds(connection, [words[:8] or b"\0"], [nothing.fileno()] * 2)
        if words[8:]:
            connection.sendall(words[8:])
    assert site.run("one") == 0
    assert site.noted("one")[0] == "python, preloaded"
    assert process.poll() is None
    assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) < 12, "descriptors are closed"


def test_it_ends_by_itself_when_nothing_is_asked_of_it(site: Site) -> None:
    assert site.preload(idle_s=0.2, ready=False).wait(20) == 0


def test_it_ends_after_its_time_but_not_under_an_execution(site: Site) -> None:
    process = site.preload(lifetime_s=1.5)
    stays = site.begin("stays", "--stay")
    until((site.out("stays") / "child").exists)
    until(lambda: _refused(site), 20)
    assert process.poll() is None
    stays.kill()
    assert process.wait(20) == 0


def _refused(site: Site) -> bool:
    name = f"asks-{len(list(site.place.iterdir()))}"
    assert site.run(name) == 0
    program, why = site.noted(name)
    return program == "python" and why == "it is about to end"
