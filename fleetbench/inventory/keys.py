"""The keys of the inventory's tables: one row for each field of the noun in `model` that people can set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetbench.inventory.documents import Place
from fleetbench.inventory.kinds import (
    INVALID,
    Reader,
    choice,
    controller_file,
    environment,
    flag,
    many,
    number,
    one_or_many,
    ports,
    text,
    whole,
)
from fleetbench.model import Device

VERSION = text("an exact version such as 0.19.1", r"[0-9][A-Za-z0-9.!+_-]{0,63}")
REQUIREMENT = text("a requirement such as name or name==version", r"[A-Za-z0-9].{0,300}")
# pip prints indexes and ps shows them: a password in the URL would be everybody's.
INDEX = r"https?://[^\s@]+"
HOST_PATH = r"/[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*"
# The service user owns the prefix; it must not come to own one of these.
SYSTEM_DIRECTORIES = frozenset(
    f"/{name}"
    for name in (
        *("bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root"),
        *("run", "sbin", "srv", "sys", "tmp", "usr", "var"),
    )
)

# Arguments of `vllm serve` that fleetbench writes itself, and where their value comes from.
RESERVED_ARGUMENTS: Mapping[str, str] = {
    "--model": "write repo",
    "--host": "units decide it",
    "--port": "write ports of the host, or --port of the command",
    "--max-model-len": "write max_model_len",
    "--tensor-parallel-size": "write tp in a sweep, or --tp of the command",
    "-tp": "write tp in a sweep, or --tp of the command",
    "--data-parallel-size": "write dp in a sweep, or --dp of the command",
    "-dp": "write dp in a sweep, or --dp of the command",
    "--pipeline-parallel-size": "write pp in a sweep, or --pp of the command",
    "-pp": "write pp in a sweep, or --pp of the command",
    "--served-model-name": "a server answers to repo, or to --served-name of deploy",
    "--config": "write what stands in that file here",
    "--uds": "servers are reached by port",
    "--headless": "such a server answers nobody",
    "--ssl-keyfile": "servers are reached by plain HTTP; encrypt in front of them",
    "--ssl-certfile": "servers are reached by plain HTTP; encrypt in front of them",
    "--api-key": "secrets do not belong in the inventory",
    "--hf-token": "provision gives hosts the controller's token as a credential",
}


def serve_argument(value: Any, place: Place) -> Any:
    """One argument of `vllm serve`; those that fleetbench writes itself are refused."""
    if not isinstance(value, str) or not value or not value.isprintable():
        place.expected("an argument of vllm serve, text without control characters", value)
        return INVALID
    option = value.partition("=")[0].replace("_", "-")  # vLLM takes --max_model_len too
    # argparse takes what an option begins with, too: --api-k
    near = [known for known in RESERVED_ARGUMENTS if len(option) > 4 and known.startswith(option)]
    if option in RESERVED_ARGUMENTS or near:
        known = option if option in RESERVED_ARGUMENTS else near[0]
        place.report(f"expected no {known} here: {RESERVED_ARGUMENTS[known]}")
        return INVALID
    if " " in value and value.startswith("--"):
        place.report(f'expected one argument an element, as in ["{value.partition(" ")[0]}", "…"]')
        return INVALID
    return value


def device(value: Any, place: Place) -> Any:
    """What a build computes on."""
    word = choice(*Device)(value, place)
    return word if word is INVALID else Device(word)


def prefix(value: Any, place: Place) -> Any:
    """A directory on the host that the service user may own."""
    good = text("an absolute path of plain characters such as /opt/vllm", HOST_PATH)(value, place)
    if good is INVALID:
        return INVALID
    if good in SYSTEM_DIRECTORIES or {".", ".."} & set(good.split("/")):
        place.expected("a directory of its own such as /opt/vllm", value)
        return INVALID
    return good


def build_keys() -> Mapping[str, Reader]:
    """Keys of [builds.NAME]."""
    return {
        "version": VERSION,
        "device": device,
        "package": text("the name of a package", r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}"),
        "index_url": text("a URL without user and password, or nothing", f"({INDEX})?"),
        "extra_index_urls": many(text('"auto", or a URL without user and password', f"auto|{INDEX}")),
        "find_links": many(text("a URL or an absolute path on the host", f"{INDEX}|{HOST_PATH}")),
        "wheelhouse": text("an absolute path on the host, or nothing", f"({HOST_PATH})?"),
        "extras": many(REQUIREMENT),
        "overrides": many(REQUIREMENT),
        "flashinfer": text('"auto", "" (none) or an exact version', r"(auto|[0-9][A-Za-z0-9.!+_-]{0,63})?"),
        "disk_mib": whole(1, 10_000_000),
    }


def host_keys(build: Reader) -> Mapping[str, Reader]:
    """Keys of [defaults], [groups.NAME] and [hosts.NAME]; `build` reads the name of a build."""
    return {
        "build": build,
        "transport": choice("ssh", "local"),
        "address": text("a host name or an IP address", r"[A-Za-z0-9:][A-Za-z0-9.:_-]{0,252}|"),
        "ssh_config": controller_file,
        "gpu": text("a part of the GPU's name", r".{0,100}"),
        "gpu_count": whole(0, 1024),
        "ports": ports,
        "sweep_ports": ports,
        "user": text("a user name", r"[a-z_][a-z0-9_-]{0,30}"),
        "prefix": prefix,
        "python": text("an interpreter such as python3.12", rf"python3(\.[0-9]{{1,2}})?|{HOST_PATH}"),
        "arch_list": text(
            'compute capabilities such as "9.0" or "8.0;9.0+PTX", or nothing',
            r"([0-9]{1,2}\.[0-9][a-z]?(\+PTX)?([ ;]|$))*",
        ),
        "env": environment,
        "install_env": environment,
        "proxy": text(
            "a proxy such as http://proxy.example:3128, or nothing", r"((https?|socks5h?)://[^\s]+)?"
        ),
        "balancer": flag,
    }


def model_keys(sweep: Reader) -> Mapping[str, Reader]:
    """Keys of [models.NAME]; `sweep` reads the name of a sweep."""
    # The Hugging Face hub allows letters, digits, "-", "_" and "."; 96 of them on either side.
    name = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
    return {
        "repo": text(
            "owner/name on Hugging Face, or an absolute path of plain characters",
            rf"{name}(/{name})?|{HOST_PATH}",
        ),
        "max_model_len": whole(1, 100_000_000),
        "serve_args": many(serve_argument),
        "env": environment,
        "sweep": sweep,
        "hosts": text("hosts as --hosts takes them"),
        "min_vllm": VERSION,
        "gated": flag,
    }


def config_keys() -> Mapping[str, Reader]:
    """Keys of one explicit configuration in a sweep's `parallel`."""
    return {
        "tp": whole(1, 1024),
        "dp": whole(1, 1024),
        "pp": whole(1, 1024),
        "ep": flag,
        "units": whole(1, 1024),
        "max_model_len": whole(1, 100_000_000),
        "serve_args": many(serve_argument),
    }


def workload_keys() -> Mapping[str, Reader]:
    """Keys of a sweep's `workload`; those in `LISTED` may hold a list, and are always read as a tuple."""
    return {
        "dataset": choice("random", "custom", "sharegpt"),
        "input_len": one_or_many(whole(1, 10_000_000)),
        "output_len": one_or_many(whole(1, 10_000_000)),
        "num_prompts": one_or_many(whole(1, 10_000_000)),
        "max_concurrency": one_or_many(whole(1, 100_000)),
        "request_rate": one_or_many(number(0.001, 1_000_000, unit="requests/s")),
        "temperature": number(0, 10),
        "prompts": controller_file,
        "extra_args": many(text("an argument of vllm bench serve", r".+")),
        "client_program": choice("auto", "python", "rust"),
    }


LISTED = ("input_len", "output_len", "num_prompts", "max_concurrency", "request_rate")


def sweep_keys(
    parallel: Reader, build: Reader, serve_args: Reader, variants: Reader, workload: Reader
) -> Mapping[str, Reader]:
    """Keys of [sweeps.NAME]; `build` reads the name of a build, `workload` stands for `workloads`."""
    day_s = 86_400
    return {
        "parallel": parallel,
        "max_model_len": one_or_many(whole(1, 100_000_000)),
        "builds": one_or_many(build),
        "serve_args": serve_args,
        "variants": variants,
        "workload": workload,
        "starts": whole(1, 100),
        "repeats": whole(1, 1000),
        "seed": whole(0, 2**31 - 1),
        "ready_timeout_s": number(1, 7 * day_s, unit="seconds"),
        "bench_timeout_s": number(1, 7 * day_s, unit="seconds"),
        "stall_timeout_s": number(5, day_s, unit="seconds"),
        "lease_s": number(15, day_s, unit="seconds"),
        "patience_s": number(5, day_s, unit="seconds"),
    }
