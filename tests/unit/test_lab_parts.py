"""The pure parts of the lab: names, mirrors, packages, image keys, borrowed settings, network rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbench.errors import UsageError
from fleetbench.lab import (
    base,
    interpreter,
    libraries,
    machine,
    network,
    requirements,
    settings,
    sources,
    spec,
)
from fleetbench.lab.commands import mounts, write
from fleetbench.lab.interpreter import Interpreter
from fleetbench.lab.lock import locked
from fleetbench.lab.settings import LabError
from fleetbench.lab.sources import Mirror

PYENV = Interpreter(
    version="3.12.1",
    executable=Path("/opt/py/bin/python3.12"),
    prefix=Path("/opt/py"),
    stdlib=Path("/opt/py/lib/python3.12"),
    include=Path("/opt/py/include/python3.12"),
    multiarch="x86_64-linux-gnu",
    wheels=Path("/opt/py/lib/python3.12/ensurepip/_bundled"),
    has_wheels=True,
)
DEBIAN = replace(PYENV, version="3.11.2", prefix=Path("/usr"), include=Path("/nowhere"), has_wheels=False)


def test_the_default_lab_and_others_do_not_meet() -> None:
    plain = settings.from_environment({"FLEETBENCH_CACHE": "/c"})
    other = settings.from_environment({"FLEETBENCH_CACHE": "/c", "FLEETBENCH_LAB": "second"})
    assert (plain.subnet, plain.bridge, plain.address(1)) == ("198.18.0", "fb-lab", "198.18.0.11")
    assert plain.images == other.images == Path("/c/lab/images")
    for attribute in ("state", "bridge", "table", "cgroup", "subnet"):
        assert getattr(plain, attribute) != getattr(other, attribute)
    assert plain.namespace(1) != other.namespace(1)


@given(st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True))
def test_every_allowed_name_makes_interfaces_that_linux_accepts(name: str) -> None:
    if name == "images":
        return
    lab = settings.from_environment({"FLEETBENCH_LAB": name, "FLEETBENCH_CACHE": "/c"})
    for interface in (lab.bridge, lab.link(settings.MAX_HOSTS), *lab.delay_links(settings.MAX_HOSTS)):
        assert len(interface) <= 15
    assert lab.subnet.startswith(("198.18.", "198.19."))
    assert all(0 <= int(number) <= 255 for number in lab.address(settings.MAX_HOSTS).split("."))


@pytest.mark.parametrize(
    "environ",
    [
        {"FLEETBENCH_LAB": "Too-Loud"},
        {"FLEETBENCH_LAB": "elevenchars"},
        {"FLEETBENCH_LAB": "images"},
        {"FLEETBENCH_LAB": "a/../b"},
        {"FLEETBENCH_LAB_SUBNET": "10.0.0"},
        {"FLEETBENCH_LAB_SUBNET": "198.18.256"},
        {"FLEETBENCH_CACHE": "relative/path"},
        {"FLEETBENCH_CACHE": "/a:b"},
        {"FLEETBENCH_CACHE": "/a b"},
    ],
)
def test_unusable_settings_are_refused_before_anything_happens(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError) as refused:
        settings.from_environment(environ)
    assert refused.value.next_step


@pytest.mark.parametrize("name", ["lab-1", "lab-00", "lab-201", "lab-1000", "h1", "lab-01\n", "", "lab-0x"])
def test_only_names_of_lab_hosts_have_a_number(name: str) -> None:
    assert settings.host_index("lab-07") == 7
    assert settings.host_index(settings.host_name(120)) == 120
    with pytest.raises(UsageError):
        settings.host_index(name)


def test_both_formats_of_apt_sources_are_read() -> None:
    deb822 = (
        "# a comment\nTypes: deb deb-src\nURIs: http://mirror.test/debian\n"
        "Suites: bookworm bookworm-updates\n"
        "Components: main\nSigned-By:\n -----BEGIN\n .\n -----END\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://off.test/\nSuites: bookworm\nComponents: main\n"
    )
    assert [source.url for source in sources.parse_deb822(deb822)] == ["http://mirror.test/debian"]
    lines = (
        "deb [arch=amd64 signed-by=/k] http://one.test/ubuntu noble main universe # x\n"
        "# deb http://no.test a b\n"
    )
    assert sources.parse_one_line(lines)[0].components == ("main", "universe")


def test_the_archive_of_the_release_itself_is_chosen() -> None:
    def source(url: str, suite: str, *components: str) -> sources.Source:
        return sources.Source(url=url, suites=(suite,), components=components)

    listed = [
        source("http://vendor.test/apt", "bookworm", "stable"),
        source("http://security.test/debian", "bookworm-security", "main"),
        source("http://mirror.test/debian/", "bookworm", "main", "contrib"),
    ]
    assert sources.choose(listed, "bookworm") == Mirror(suite="bookworm", url="http://mirror.test/debian")
    assert sources.choose(listed, "trixie") == Mirror(suite="trixie")
    assert base.source_line(Mirror(suite="trixie")) == ""


def test_this_machines_sources_are_read_wherever_they_stand(tmp_path: Path) -> None:
    write(tmp_path / "os-release", 'ID=debian\nVERSION_CODENAME="bookworm"\n')
    mirrors = tmp_path / "mirrors.list"
    write(mirrors, "# choose one\nhttp://cloud.test/debian\n")
    stanza = f"Types: deb\nURIs: mirror+file:{mirrors}\nSuites: bookworm\nComponents: main\n"
    write(tmp_path / "apt/sources.list.d/debian.sources", stanza)
    assert sources.read(tmp_path).url == "http://cloud.test/debian"


def test_libraries_are_found_and_given_to_their_packages() -> None:
    ldd = (
        "/opt/py/bin/python3.12:\n\tlinux-vdso.so.1 (0x00007ffd)\n"
        "\tlibpython3.12.so.1.0 => /opt/py/lib/libpython3.12.so.1.0 (0x00007f0000000000)\n"
        "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f0000000001)\n"
        "\tlibgone.so => not found\n"
    )
    found = libraries.parse_ldd(ldd)
    assert [path.name for path in found] == ["libz.so.1", "libpython3.12.so.1.0"]
    owners = libraries.parse_owners(
        "zlib1g:amd64: /usr/lib/x86_64-linux-gnu/libz.so.1\n"
        "diversion by x from: /y\ndpkg-query: no path found\n"
    )
    assigned = libraries.assign(found, owners)
    assert assigned.packages == ("zlib1g",)
    assert assigned.files == (Path("/opt/py/lib/libpython3.12.so.1.0"),)


def test_debians_own_python_names_the_packages_it_lacks() -> None:
    assert interpreter.debian_packages(PYENV) == ()
    assert interpreter.debian_packages(DEBIAN) == ("python3.11-venv", "python3.11-dev")


def test_interpreters_are_looked_for_where_people_install_them(tmp_path: Path) -> None:
    for version in ("3.12.1", "3.12.9"):
        write(tmp_path / f".pyenv/versions/{version}/bin/python3.12", "")
    environ = {"PATH": f"/first:{tmp_path}/.pyenv/shims:/usr/bin"}
    found = [str(path) for path in interpreter.candidates("3.12", environ, tmp_path)]
    assert found[0].endswith("versions/3.12.9/bin/python3.12")
    assert "/first/python3.12" in found
    assert not [path for path in found if "/shims/" in path]


def test_something_that_is_no_python_is_passed_over(tmp_path: Path) -> None:
    script = tmp_path / "python3.12"
    write(script, "#!/bin/sh\necho hello\n", 0o755)
    assert interpreter.describe(script) is None
    assert interpreter.describe(tmp_path / "absent") is None


def test_packages_carry_rockys_names_and_only_what_is_there() -> None:
    present = frozenset(
        {"/usr/lib/libpython3.12.so.1.0", "/usr/lib/libpython3.12.so", "/usr/include/python3.12"}
    )
    text = spec.python(PYENV, Path("/stage"), present)
    assert "Name: python3.12\nVersion: 3.12.1\n" in text
    files = text[text.index("%files libs") :]
    assert "/usr/lib/libpython3.12.so.1.0\n" in files.partition("%files pip-wheel")[0]
    assert "/usr/lib/libpython3.12.so\n" in files.partition("%files devel")[2]
    assert "%files pip\n" not in text
    assert "config-3.12" not in text
    debian = spec.python(DEBIAN, Path("/stage"), frozenset())
    assert "%files pip-wheel\n/usr/share/python-wheels\n" in debian


def test_a_changed_recipe_or_input_makes_another_image() -> None:
    mirror = Mirror(suite="bookworm", url="http://a.test", components=("main",))
    first = base.key(b"recipe", ("dnf", "rpm"), mirror, "repository-1")
    assert first == base.key(b"recipe", ("dnf", "rpm"), replace(mirror, url="http://b.test"), "repository-1")
    others = {
        base.key(b"recipe2", ("dnf", "rpm"), mirror, "repository-1"),
        base.key(b"recipe", ("dnf",), mirror, "repository-1"),
        base.key(b"recipe", ("dnfrpm",), mirror, "repository-1"),
        base.key(b"recipe", ("dnf", "rpm"), replace(mirror, suite="trixie"), "repository-1"),
        base.key(b"recipe", ("dnf", "rpm"), mirror, "repository-2"),
    }
    assert len(others | {first}) == 6


def test_settings_are_put_back_when_the_last_lab_goes() -> None:
    one = machine.enter(machine.Borrowed(), "lab", "/c/lab", {"limit": 128})
    two = machine.enter(one, "other", "/c/other", {"limit": 8192, "forward": 0})
    assert two.values == {"limit": 128, "forward": 0}
    assert machine.parse(machine.render(two)) == two
    left, put_back = machine.leave(two, "lab")
    assert put_back == {}
    assert machine.leave(left, "other") == (machine.Borrowed(), {"limit": 128, "forward": 0})
    assert machine.leave(machine.Borrowed(), "never") == (machine.Borrowed(), {})


def test_translation_rules_replace_themselves() -> None:
    rules = network.translation("fleetbench_lab", "198.18.0").splitlines()
    assert rules[:2] == ["table ip fleetbench_lab {}", "delete table ip fleetbench_lab"]
    assert "ip saddr 198.18.0.0/24 ip daddr != 198.18.0.0/24 masquerade;" in rules[5]


def test_files_are_written_whole_and_as_closed_as_asked(tmp_path: Path) -> None:
    write(tmp_path / "deep/key", "one", 0o600)
    write(tmp_path / "deep/key", "two", 0o600)
    assert (tmp_path / "deep/key").read_text() == "two"
    assert (tmp_path / "deep/key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["key"]
    assert mounts(tmp_path) == ()
    assert Path("/") in mounts(Path("/"))


def test_a_lock_is_held_by_one_and_survives_its_removal(tmp_path: Path) -> None:
    said: list[str] = []
    lock = tmp_path / "a/lock"
    with locked(lock, said.append):
        lock.unlink()
        with locked(lock, said.append):  # a new file: nobody holds it
            assert lock.exists()
    assert said == []


def test_what_is_missing_is_said_in_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "obstacle", lambda: "")
    monkeypatch.setattr(requirements, "PROGRAMS", {"some-package": "no-such-program", "coreutils": "ls"})
    monkeypatch.setattr(requirements, "find", lambda: DEBIAN)
    command = "apt-get install -y --no-install-recommends some-package python3.11-venv python3.11-dev"
    assert requirements.missing() == f"the lab needs: {command}"
    with pytest.raises(LabError) as refused:
        requirements.require()
    assert refused.value.next_step == command
    monkeypatch.setattr(requirements, "obstacle", lambda: "the lab needs root: because")
    with pytest.raises(LabError, match="needs root"):
        requirements.require()
