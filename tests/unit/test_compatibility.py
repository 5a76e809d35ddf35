"""A build that cannot work on a host is refused before anything is touched, with what would work."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from provision_hosts import CPU, CUDA, H100_HOST, LAB_HOST, gpu, lab, rocky

from fleetbench.accelerators import arch_env, arch_list, flashinfer_arch_list, torch_index
from fleetbench.compatibility import check, refuse
from fleetbench.errors import NotPossible
from fleetbench.facts.values import Disk, HostFacts, Missing, Os, Python, Venv
from fleetbench.model import Build, Device, Host
from fleetbench.releases import number, table

ONE_GPU = replace(H100_HOST, gpu="", gpu_count=None)


def version(text: str) -> Build:
    return replace(CUDA, version=text)


def refusals(build: Build, facts: HostFacts, host: Host = ONE_GPU) -> list[str]:
    return [
        f"{problem.what} | {problem.next_step}" for problem in check(build, facts, host) if problem.refuses
    ]


def test_a_fresh_rocky_9_with_h100s_takes_the_newest_cuda_12_release() -> None:
    assert check(CUDA, rocky(), H100_HOST) == ()


def test_an_old_driver_is_named_with_the_newest_release_and_the_driver_that_would_do() -> None:
    facts = rocky(gpus=(gpu(driver="535.230.02", cuda="12.2"),))
    (said,) = refusals(version("0.21.0"), facts)
    assert "driver 535.230.02 runs CUDA <= 12.x; vllm 0.21.0 from PyPI is CUDA 13" in said
    assert "choose vllm 0.19.1" in said
    assert "driver >= 580" in said


def test_a_wheel_for_cuda_12_of_a_cuda_13_release_is_no_problem_for_driver_570() -> None:
    assert refusals(version("0.21.0+cu129"), rocky()) == []


def test_a_driver_before_cuda_12_gets_no_release_recommended() -> None:
    (said,) = refusals(CUDA, rocky(gpus=(gpu(driver="470.1", cuda="11.4"),)))
    assert "choose" not in said
    assert "driver >= 525" in said


def test_the_wheels_that_want_a_newer_glibc_than_rocky_9_are_refused() -> None:
    facts = rocky(gpus=(gpu(driver="580.65", cuda="13.0"),))
    (said,) = refusals(version("0.20.1"), facts)
    assert "Rocky Linux 9.6 has glibc 2.34, the wheel of vllm 0.20.1 needs 2.35" in said
    assert "choose vllm 0.33.0" in said


def test_rocky_8_is_offered_a_release_whose_wheel_it_can_load() -> None:
    eight = Os(
        id="rocky", version="8.10", name="Rocky 8", family=("rocky",), architecture="x86_64", glibc="2.28"
    )
    (said,) = refusals(version("0.12.0"), rocky(os=eight))
    assert "choose vllm 0.11.2" in said


@pytest.mark.parametrize(("python", "release"), [("python3.9", "0.11.1"), ("python3.10", "0.32.0")])
def test_a_python_outside_the_range_is_refused_with_one_inside(python: str, release: str) -> None:
    facts = rocky(gpus=(gpu(driver="580.65", cuda="13.0"),))
    (said,) = refusals(version(release), facts, replace(ONE_GPU, python=python))
    assert 'set python = "python3.12"' in said


def test_a_cpu_build_follows_the_python_range_of_the_same_vllm() -> None:
    (said,) = refusals(CPU, lab(), replace(LAB_HOST, python="python3.9"))
    assert "needs Python 3.11 to 3.14" in said


def test_a_volta_gpu_is_offered_a_release_that_still_has_kernels_for_it() -> None:
    volta = gpu(name="Tesla V100-PCIE-16GB", driver="580.65", cuda="13.0", compute_capability="7.0")
    (said,) = refusals(version("0.33.0"), rocky(gpus=(volta,)))
    assert "Tesla V100-PCIE-16GB has compute capability 7.0, vllm 0.33.0 needs 7.5" in said
    assert "choose vllm 0.19.1" in said


def test_too_little_room_is_refused_unless_the_venv_is_there_already() -> None:
    small = rocky(disks=(Disk(path="/opt/vllm", free_mib=3000),))
    (said,) = refusals(CUDA, small)
    assert "3,000 MiB free" in said
    assert "20,000 MiB" in said
    done = small.with_venv(Venv(path=H100_HOST.venv, complete=True, lock="x"))
    assert refusals(CUDA, done) == []


def test_a_release_newer_than_the_table_is_a_remark_and_no_refusal() -> None:
    (problem,) = check(version("0.40.0"), rocky(), ONE_GPU)
    assert not problem.refuses
    assert "unknown" in problem.what


def test_a_gpu_that_cannot_be_seen_is_refused_with_the_tools_own_words() -> None:
    facts = rocky(gpus=Missing("nvidia-smi: has failed because it couldn't communicate with the driver"))
    (said,) = refusals(CUDA, facts)
    assert "couldn't communicate with the driver" in said


def test_other_gpus_than_the_inventory_says_are_refused() -> None:
    wrong = replace(H100_HOST, gpu="A100", gpu_count=8)
    name, count = refusals(CUDA, rocky(), wrong)
    assert "the inventory says A100" in name
    assert "says 8 GPUs, the host shows 2" in count


def test_a_cuda_build_on_amd_is_refused() -> None:
    amd = rocky(gpus=(gpu(vendor="amd", name="AMD Instinct MI210", driver="", compute_capability="gfx90a"),))
    assert any('set device = "rocm"' in said for said in refusals(CUDA, amd))
    rocm = Build(name="rocm", version="0.22.1+rocm722", device=Device.ROCM)
    assert refusals(rocm, amd) == []


def test_a_home_directory_is_refused_where_selinux_would_stop_the_service() -> None:
    at_home = replace(ONE_GPU, prefix="/home/vllm")
    facts = rocky(disks=(Disk(path="/home/vllm", free_mib=900_000),))
    (said,) = refusals(CUDA, facts, at_home)
    assert "/opt/vllm" in said
    assert refusals(CUDA, replace(facts, selinux="Disabled"), at_home) == []


def test_an_interpreter_below_root_is_refused() -> None:
    own = Python(
        name="python3.12", version="3.12.1", path="/root/.pyenv/versions/3.12.1/bin/python3.12", headers=True
    )
    (said,) = refusals(CUDA, rocky(pythons=(own,)))
    assert "home directory" in said


def test_a_distribution_without_that_python_is_a_remark() -> None:
    jammy = Os(id="ubuntu", version="22.04", name="Ubuntu 22.04", family=("ubuntu", "debian"), glibc="2.35")
    (problem,) = check(CUDA, rocky(os=jammy), ONE_GPU)
    assert not problem.refuses
    assert "python3.12" in problem.what


def test_no_root_rights_are_said_first_and_alone() -> None:
    (said,) = refusals(version("0.21.0"), rocky(root=False))
    assert "no root rights" in said


def test_facts_that_could_not_be_read_are_never_planned_on() -> None:
    (said,) = refusals(CUDA, rocky(missing={"files": "stat: no answer in time; it hangs"}))
    assert "stat: no answer in time" in said


def test_a_refusal_fits_into_three_lines_and_names_all_problems() -> None:
    facts = rocky(disks=(Disk(path="/opt/vllm", free_mib=1),), gpus=(gpu(driver="535.1", cuda="12.2"),))
    with pytest.raises(NotPossible) as caught:
        refuse(check(version("0.21.0"), facts, ONE_GPU), ONE_GPU)
    text = str(caught.value)
    assert len(text.splitlines()) == 3
    assert "MiB free" in text
    assert "CUDA 13" in text


@pytest.mark.parametrize(
    ("release", "driver_cuda", "capability", "index"),
    [
        ("0.19.1", "12.8", "9.0", ""),  # PyPI's torch is CUDA 12.8: nothing else is needed
        ("0.19.1", "12.2", "9.0", ""),  # by minor-version compatibility
        ("0.33.0", "13.0", "9.0", ""),
        ("0.21.0+cu129", "12.8", "9.0", "https://download.pytorch.org/whl/cu129"),
        ("0.10.1.1", "13.0", "9.0", ""),
        ("0.10.1.1", "13.0", "12.0", "https://download.pytorch.org/whl/cu128"),  # 12.6 knows no Blackwell
        ("0.99.0", "13.0", "9.0", ""),
    ],
)
def test_auto_stands_for_the_pytorch_index_that_fits(
    release: str, driver_cuda: str, capability: str, index: str
) -> None:
    facts = rocky(gpus=(gpu(cuda=driver_cuda, compute_capability=capability),))
    assert torch_index(version(release), facts) == index


def test_the_architecture_list_holds_each_capability_once() -> None:
    mixed = rocky(gpus=(gpu(), gpu(1), gpu(2, compute_capability="8.9"), gpu(3, compute_capability="")))
    assert arch_list(mixed) == "8.9;9.0"
    assert arch_list(rocky(gpus=Missing("no nvidia-smi"))) == ""


@pytest.mark.parametrize(
    ("torch_list", "flashinfer"),
    [
        ("9.0", "9.0a"),
        ("8.0;8.9", "8.0 8.9"),
        ("8.0 9.0a+PTX", "8.0 9.0a"),
        ("10.0", "10.0a"),
        ("12.0", "12.0"),
    ],
)
def test_flashinfers_list_is_separated_by_blanks_and_has_the_suffix_that_hopper_needs(
    torch_list: str, flashinfer: str
) -> None:
    assert flashinfer_arch_list(torch_list) == flashinfer


def test_flashinfer_reads_its_own_list_only_since_0_3_1() -> None:
    assert dict(arch_env(version("0.10.1.1"), rocky())) == {"TORCH_CUDA_ARCH_LIST": "9.0"}
    assert dict(arch_env(CUDA, rocky()))["FLASHINFER_CUDA_ARCH_LIST"] == "9.0a"
    assert dict(arch_env(CUDA, rocky(), "8.0"))["TORCH_CUDA_ARCH_LIST"] == "8.0"
    assert arch_env(CPU, lab()) == ()


def test_every_row_of_the_table_is_complete_and_in_order() -> None:
    releases = table().releases
    assert len({release.version for release in releases}) == len(releases) > 25
    for earlier, later in itertools.pairwise(releases):
        assert number(earlier.version) < number(later.version)
        assert number(earlier.torch) <= number(later.torch)
    for release in releases:
        assert table().driver_for(release.cuda), release.version
        assert number(release.python[0]) <= (3, 12) <= number(release.python[1])
        assert number(release.min_capability) >= (7, 0)
