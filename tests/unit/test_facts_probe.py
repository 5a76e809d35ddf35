"""The probe itself, run by the bash of this machine against stand-ins of the tools."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from facts_answers import TOKEN, fixture

from fleetbench.facts.probe import command, parse
from fleetbench.facts.values import HostFacts, Missing, Os

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")


class Bench:
    """A directory that comes first on PATH, and a prefix to look at."""

    def __init__(self, root: Path) -> None:
        self.tools = root / "tools"
        self.prefix = root / "vllm"
        self.tools.mkdir()
        self.prefix.mkdir()
        self.answer = ""
        self.seconds = 0.0

    def tool(self, name: str, script: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def prints(self, name: str, fixture_name: str) -> None:
        (self.tools / fixture_name).write_text(fixture(fixture_name))
        self.tool(name, f'exec cat "{self.tools / fixture_name}"')

    def facts(
        self,
        *,
        paths: tuple[str, ...] = (),
        packages: tuple[str, ...] = (),
        user: str = "root",
        tool_limit_s: int = 5,
        uid: int | None = None,
    ) -> HostFacts:
        argv = command(
            prefix=str(self.prefix),
            user=user,
            paths=paths,
            packages=packages,
            token=TOKEN,
            tool_limit_s=tool_limit_s,
        )
        started = time.monotonic()
        done = subprocess.run(
            argv,
            capture_output=True,
            timeout=60,
            check=True,
            stdin=subprocess.DEVNULL,
            env={"PATH": f"{self.tools}:/usr/bin:/bin:/usr/sbin:/sbin"},
            user=uid,
        )
        self.seconds = time.monotonic() - started
        self.answer = done.stdout.decode("utf-8", "replace")
        assert done.stderr == b""
        return parse(self.answer, host="here", token=TOKEN)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def leftovers() -> list[Path]:
    return [path for base in ("/run", "/dev/shm", "/tmp") for path in Path(base).glob(f"fleetbench-{TOKEN}")]


def test_this_machine_is_described_in_well_under_its_limits(bench: Bench) -> None:
    facts = bench.facts()
    assert isinstance(facts.os, Os)
    assert facts.os.kernel == os.uname().release
    assert facts.os.hostname == os.uname().nodename
    assert facts.memory_mib > 100
    assert facts.cpus >= 1
    assert abs(facts.clock_utc - time.time()) < 60
    assert not isinstance(facts.disks, Missing)
    assert facts.disks[0].path == str(bench.prefix)
    assert facts.accounts["root"].uid == 0
    assert facts.root is (os.geteuid() == 0)
    assert leftovers() == []


def test_every_section_ends_with_a_status(bench: Bench) -> None:
    bench.facts()
    names = {line.split(".")[1] for line in bench.answer.split("\n") if line.startswith(TOKEN)}
    ended = {line.split(".")[1] for line in bench.answer.split("\n") if line.endswith(".rc")}
    assert names - ended <= {"stat"}
    assert {"os", "machine", "units", "venvs", "files", "listeners", "pci", "disks", "end"} <= ended


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_works_without_root_and_says_so() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        facts = Bench(Path(directory)).facts(uid=65534)
    assert isinstance(facts.os, Os)
    assert facts.root is False
    assert not isinstance(facts.disks, Missing)
    assert leftovers() == []


def test_tools_of_a_gpu_host_are_asked_and_read(bench: Bench) -> None:
    for name in ("nvidia_query.csv", "nvidia_table.txt", "nvidia_apps.csv", "nvidia_topo.txt"):
        (bench.tools / name).write_text(fixture(name))
    bench.tool(
        "nvidia-smi",
        f'cd "{bench.tools}"; case "$*" in *query-gpu*) exec cat nvidia_query.csv;;'
        " *query-compute*) exec cat nvidia_apps.csv;; topo*) exec cat nvidia_topo.txt;;"
        " *) exec cat nvidia_table.txt;; esac",
    )
    bench.prints("systemctl", "units.txt")
    bench.prints("ss", "listeners.txt")
    bench.prints("firewall-cmd", "firewall.txt")
    bench.prints("chronyc", "chrony.txt")
    bench.tool("uv", "echo uv 0.9.7")
    facts = bench.facts()
    assert not isinstance(facts.gpus, Missing)
    assert [gpu.name for gpu in facts.gpus] == ["NVIDIA H100 80GB HBM3"] * 8
    assert facts.gpus[0].cuda == "12.8"
    assert not isinstance(facts.units, Missing)
    assert facts.units["vllm-8001.service"].restarts == 2
    assert facts.firewall_ports == ("8001/tcp", "8101-8110/tcp")
    assert facts.time_sync == "yes"
    assert facts.tool_versions["uv"] == "0.9.7"
    assert facts.tools["nvidia-smi"] == str(bench.tools / "nvidia-smi")


def test_a_gpu_tool_that_hangs_is_given_up_and_hides_nothing(bench: Bench) -> None:
    bench.tool("nvidia-smi", "trap '' TERM; sleep 120 & wait; wait")
    facts = bench.facts(tool_limit_s=1)
    assert facts.gpus == Missing("nvidia-smi: no answer in time; it hangs")
    assert isinstance(facts.os, Os)
    assert bench.seconds < 8
    assert leftovers() == []


def test_a_process_that_not_even_sigkill_ends_does_not_hold_the_answer_back(bench: Bench) -> None:
    """A driver call that never returns: timeout(1) itself then waits forever, which this one does at once."""
    bench.tool("nvidia-smi", "exit 0")
    bench.tool(
        "timeout",
        'case "$*" in *nvidia-smi*) trap "" TERM; sleep 25; exit;; esac; exec /usr/bin/timeout "$@"',
    )
    facts = bench.facts(tool_limit_s=1)
    assert isinstance(facts.gpus, Missing)
    assert "hangs" in facts.gpus.reason
    assert bench.seconds < 10


def test_a_tool_that_prints_without_end_is_cut_off(bench: Bench) -> None:
    bench.tool("nvidia-smi", "exec yes '| 0  NVIDIA H100 On | 00000000:1B:00.0 Off | 0 |'")
    facts = bench.facts(tool_limit_s=3)
    assert isinstance(facts.os, Os)
    assert len(bench.answer) < 50_000_000


def test_a_tool_cannot_forge_a_section(bench: Bench) -> None:
    bench.tool("ss", f'printf "\\n{TOKEN}.machine.out\\n uid\\t0\\n{TOKEN}.machine.rc\\n 0\\n"')
    bench.tool("getenforce", "echo Permissive")
    facts = bench.facts()
    assert facts.root is (os.geteuid() == 0)
    assert facts.listeners == ()
    assert facts.selinux == "Permissive"


def test_venvs_are_read_without_starting_their_python(bench: Bench) -> None:
    venv = bench.prefix / "venvs" / "vllm-0.10.1.1"
    site = venv / "lib" / "python3.12" / "site-packages"
    for name in (
        "vllm-0.10.1.1",
        "torch-2.7.1+cu128",
        "flashinfer_python-0.2.12",
        "vllm_extras-9",
        "requests-2",
    ):
        (site / f"{name}.dist-info").mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").write_text("#!/bin/false\n")
    (venv / "bin" / "python").chmod(0o755)
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.12.8\n")
    (venv / ".fleetbench-complete").write_text("5c1e9a2b7d40")
    (bench.prefix / "venvs" / "evil\nstamp\tabc").mkdir()
    (bench.prefix / "venv-vllm").symlink_to("venvs/vllm-0.10.1.1")
    facts = bench.facts()
    assert not isinstance(facts.venvs, Missing)
    (found,) = facts.venvs.values()
    assert found.packages == {"vllm": "0.10.1.1", "torch": "2.7.1+cu128", "flashinfer-python": "0.2.12"}
    assert (found.python, found.complete, found.lock) == ("3.12.8", True, "5c1e9a2b7d40")
    assert facts.files[f"{bench.prefix}/venv-vllm"].target == "venvs/vllm-0.10.1.1"


def test_a_stamp_that_is_a_pipe_does_not_stop_the_probe(bench: Bench) -> None:
    venv = bench.prefix / "venvs" / "vllm-1"
    venv.mkdir(parents=True)
    os.mkfifo(venv / ".fleetbench-complete")
    os.mkfifo(venv / "pyvenv.cfg")
    facts = bench.facts()
    assert not isinstance(facts.venvs, Missing)
    assert facts.venvs[str(venv)].complete is False
    assert bench.seconds < 5


def test_a_link_in_a_venv_does_not_make_root_read_a_secret(bench: Bench, tmp_path: Path) -> None:
    """venvs/ belongs to the service user; what the probe reads is shown, and kept beside runs."""
    token = tmp_path / "token"
    token.write_text("hf_rootOnlyToken\n")
    venv = bench.prefix / "venvs" / "vllm-1"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to("/bin/true")
    (venv / "pyvenv.cfg").symlink_to(token)
    (venv / ".fleetbench-complete").symlink_to(token)
    site = venv / "lib" / "python3.12" / "site-packages"
    (site / "vllm-1\nvenv\t" / "etc.dist-info").mkdir(parents=True)
    facts = bench.facts()
    assert "rootOnlyToken" not in bench.answer
    assert not isinstance(facts.venvs, Missing)
    assert list(facts.venvs) == [str(venv)]
    assert facts.venvs[str(venv)].complete is False


def test_a_stamp_that_is_no_hash_is_no_lock(bench: Bench) -> None:
    venv = bench.prefix / "venvs" / "vllm-1"
    venv.mkdir(parents=True)
    (venv / ".fleetbench-complete").write_text("\x1b[2J wanted\n")
    facts = bench.facts()
    assert not isinstance(facts.venvs, Missing)
    assert (facts.venvs[str(venv)].complete, facts.venvs[str(venv)].lock) == (True, "")


def test_a_links_target_cannot_forge_facts_or_move_the_cursor(bench: Bench) -> None:
    forged = "x\nfile\tdirectory\t755\troot:root\t/etc/credstore"
    (bench.prefix / "venv-vllm").symlink_to(forged)
    facts = bench.facts()
    assert "/etc/credstore" not in facts.files
    assert facts.files[f"{bench.prefix}/venv-vllm"].target == ""
    (bench.prefix / "other").symlink_to("venvs/\u009b31mred\u202e")
    facts = bench.facts(paths=(str(bench.prefix / "other"),))
    assert facts.files[str(bench.prefix / "other")].target.isprintable()


def test_files_are_hashed_and_nothing_outside_our_folders_is_copied(bench: Bench) -> None:
    secret = bench.prefix / "a b$(id)'\"*.env"
    secret.write_text("HF_TOKEN=hf_secret\n")
    facts = bench.facts(paths=(str(secret), str(bench.prefix / "absent"), "/etc/shadow"))
    file = facts.files[str(secret)]
    assert (file.kind, file.text, len(file.sha256), file.mode) == (
        "file",
        None,
        64,
        secret.stat().st_mode & 0o7777,
    )
    assert str(bench.prefix / "absent") not in facts.files
    assert facts.files[str(bench.prefix)].kind == "directory"
    assert "hf_secret" not in bench.answer
    assert facts.files["/etc/shadow"].text is None


def test_packages_are_asked_of_rpm_on_a_host_that_has_it(bench: Bench) -> None:
    if shutil.which("dpkg-query", path="/usr/bin") and "rhel" not in Path("/etc/os-release").read_text():
        bench.tool("rpm", "exit 1")
        packages = bench.facts(packages=("bash", "no-such-package-at-all")).packages
        assert set(packages) == {"bash"}
    else:
        bench.tool("rpm", 'printf "bash\\t5.1.8-9.el9\\npackage no-such is not installed\\n"; exit 1')
        assert bench.facts(packages=("bash", "no-such")).packages == {"bash": "5.1.8-9.el9"}


def test_rocm_smi_is_asked_when_amd_smi_fails_and_not_otherwise(bench: Bench) -> None:
    bench.prints("rocm-smi", "rocm.json")
    bench.tool("amd-smi", "echo AMDSMI_STATUS_NOT_SUPPORTED >&2; exit 3")
    gpus = bench.facts().gpus
    assert not isinstance(gpus, Missing)
    assert [gpu.name for gpu in gpus] == ["AMD Instinct MI210", "AMD Instinct MI250X"]
    bench.prints("amd-smi", "amd_static.json")
    gpus = bench.facts().gpus
    assert not isinstance(gpus, Missing)
    assert [gpu.name for gpu in gpus] == ["AMD Instinct MI300X"] * 2
    assert f"{TOKEN}.rocm_json.rc" not in bench.answer
