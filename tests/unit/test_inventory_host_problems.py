# ruff: noqa: E501  (one row a case)
"""Every kind of mistake in hosts.toml, with its exact place and words."""

from __future__ import annotations

from pathlib import Path

import pytest
from inventory_files import HOSTS, NAME_RULE, problems

CAPABILITIES = 'compute capabilities such as "9.0" or "8.0;9.0+PTX", or nothing'
PORTS = 'first and last port from 1 to 65535 as "8001-8099" or [8001, 8099]'


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("gpu_cont = 8", "gpu_cont: no such key here; did you mean gpu_count?"),
        ("gpu_count = -1", "gpu_count: expected a whole number from 0 to 1024, found -1"),
        ("gpu_count = true", "gpu_count: expected a whole number from 0 to 1024, found true"),
        ('gpu_count = "8"', 'gpu_count: expected a whole number from 0 to 1024, found "8"'),
        ("gpu_count = 8.0", "gpu_count: expected a whole number from 0 to 1024, found 8.0"),
        ('build = "cud"', 'build: no build is called "cud"; did you mean cuda?'),
        ("build = 3", "build: expected the name of a build, found 3"),
        ('transport = "shh"', 'transport: expected ssh or local, found "shh"; did you mean ssh?'),
        ('ports = "8099-8001"', f'ports: expected {PORTS}, found "8099-8001"'),
        ("ports = [0, 8001]", f"ports: expected {PORTS}, found [0, 8001]"),
        ("ports = [8001, 65536]", f"ports: expected {PORTS}, found [8001, 65536]"),
        ("ports = [8001]", f"ports: expected {PORTS}, found [8001]"),
        ("ports = 8001", f"ports: expected {PORTS}, found 8001"),
        (
            'sweep_ports = "8050-8120"',
            None,
        ),
        ('prefix = "opt/vllm"', 'prefix: expected an absolute path of plain characters such as /opt/vllm, found "opt/vllm"'),
        ('prefix = "/opt"', 'prefix: expected a directory of its own such as /opt/vllm, found "/opt"'),
        ('prefix = "/opt/../etc"', 'prefix: expected a directory of its own such as /opt/vllm, found "/opt/../etc"'),
        ('prefix = "/opt/$HOME"', 'prefix: expected an absolute path of plain characters such as /opt/vllm, found "/opt/$HOME"'),
        ('user = "vllm; id"', 'user: expected a user name, found "vllm; id"'),
        ('user = "-u"', 'user: expected a user name, found "-u"'),
        ('python = "python2"', 'python: expected an interpreter such as python3.12, found "python2"'),
        ('address = "-oProxyCommand=id"', 'address: expected a host name or an IP address, found "-oProxyCommand=id"'),
        ('arch_list = "H100"', f'arch_list: expected {CAPABILITIES}, found "H100"'),
        ('gpu = "H\\u0007"', 'gpu: expected a part of the GPU\'s name, found "H"'),
        ('env = "A=1"', 'env: expected a table of environment variables, found "A=1"'),
        ('env = { "A B" = "1" }', 'env."A B": expected the name of an environment variable'),
        ("env = { A = true }", "env.A: expected text without control characters, or a number, found true"),
        ('env = { A = "x\\ny" }', 'env.A: expected text without control characters, or a number, found "x y"'),
        ('env.HF_TOKEN = "hf_x"', "env.HF_TOKEN: expected no secret in the inventory, found HF_TOKEN; secrets go to the host as credentials"),
        ('env.CUDA_VISIBLE_DEVICES = "0"', "env.CUDA_VISIBLE_DEVICES: expected no CUDA_VISIBLE_DEVICES here: each unit's GPU set decides"),
        ('proxy = "proxy:3128"', 'proxy: expected a proxy such as http://proxy.example:3128, or nothing, found "proxy:3128"'),
    ],
)  # fmt: skip
def test_a_wrong_host_variable_is_named_with_file_line_and_key(
    tmp_path: Path, added: str, expected: str | None
) -> None:
    found = problems(tmp_path, hosts=f"{HOSTS}{added}\n")
    if expected is None:
        expected = "expected ports and sweep_ports apart, found 8001-8099 and 8050-8120: a sweep would take a service's port"
        assert found == [f"hosts.toml:6: hosts.a100-01: {expected}"]
    else:
        assert found == [f"hosts.toml:7: hosts.a100-01.{expected}"]


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("[builds.x]", "7: builds.x: expected the key version, which has no default"),
        ('[builds.x]\nversion = "latest"', '8: builds.x.version: expected an exact version such as 0.19.1, found "latest"'),
        ('[builds.x]\nversion = "1"\ndevice = "gpu"', '9: builds.x.device: expected cuda or rocm or cpu, found "gpu"; did you mean cpu?'),
        ('[builds.x]\nversion = "1"\nextras = ["a", "-r x"]', '9: builds.x.extras[1]: expected a requirement such as name or name==version, found "-r x"'),
        ('[builds.x]\nversion = "1"\nextra_index_urls = "auto"', '9: builds.x.extra_index_urls: expected a list, found "auto"'),
        ('[builds.x]\nversion = "1"\nindex_url = "https://me:pw@index.example"', '9: builds.x.index_url: expected a URL without user and password, or nothing, found "https://***@index.example"'),
        ('[builds.x]\nversion = "1"\nwheelhouse = "wheels"', '9: builds.x.wheelhouse: expected an absolute path on the host, or nothing, found "wheels"'),
        ('[hosts.""]', f'7: hosts."": expected a host name of {NAME_RULE}; ranges such as h100-[01-08] are fine'),
        ('[hosts."-oFoo"]', f"7: hosts.-oFoo: expected a host name of {NAME_RULE}; ranges such as h100-[01-08] are fine"),
        ('[hosts."a;id"]', f'7: hosts."a;id": expected a host name of {NAME_RULE}; ranges such as h100-[01-08] are fine'),
        ('[hosts."x-[08-01]"]', '7: hosts."x-[08-01]": [08-01] runs backwards'),
        ('[hosts."h100-[08-09]"]', '7: hosts."h100-[08-09]": host h100-08 is already defined at hosts.toml:5'),
        ("[hosts.b]\n[hosts.b.environment]", "8: hosts.b.environment: no such table here"),
        ("[groups.g]", "7: groups.g: expected the key hosts: names, ranges or @groups"),
        ("[groups.g]\nhosts = 3", '8: groups.g.hosts: expected host names, ranges or @groups such as ["h100-[01-08]", "@h200"], found 3'),
        ('[groups.g]\nhosts = ["a100-1"]', "8: groups.g.hosts: no host is called a100-1; did you mean a100-01"),
        ('[groups.g]\nhosts = ["@f"]', "8: groups.g.hosts: no group is called @f"),
        ('[groups.all]\nhosts = "a100-01"', '7: groups.all: expected another name than "all": @all always means every host'),
        ('[groups."a b"]\nhosts = []', f'7: groups."a b": expected a name of {NAME_RULE}'),
        ('[groups.g]\nhosts = "@g"', "8: groups.g.hosts: a group cannot be inside itself: g > g"),
        ('[groups.f]\nhosts = "@g"\n[groups.g]\nhosts = "@f"', "8: groups.f.hosts: a group cannot be inside itself: f > g > f"),
        ('[groups.f]\nhosts = "a100-01"\ngpu = "A"\n[groups.g]\nhosts = "@all"\ngpu = "B"', "12: groups.g.gpu: differs from group f for hosts in both; write it in the host's own table, or put one group into the other"),
        ("[host.x]", "7: host: expected [defaults] or [builds] or [groups] or [hosts]; did you mean hosts?"),
        ("[models.x]", "7: models: expected [defaults] or [builds] or [groups] or [hosts]; it belongs into models.toml"),
    ],
)  # fmt: skip
def test_a_wrong_table_of_hosts_toml_is_named(tmp_path: Path, added: str, expected: str) -> None:
    found = problems(tmp_path, hosts=f"{HOSTS}{added}\n")
    assert len(found) == 1
    assert found[0].startswith(f"hosts.toml:{expected}")
