"""RPM specifications, as text: a CPython under Rocky's package names, and the release package."""

from __future__ import annotations

from pathlib import Path

from fleetbench.lab.interpreter import Interpreter

RELEASE = "1.el9"

# Nothing is stripped, rewritten or given automatic requirements: the libraries come from a Debian tree,
# whose file names RPM's dependency generator knows nothing of.
PREAMBLE = """\
%define debug_package %{nil}
%define __os_install_post %{nil}
%define _build_id_links none
%define _binary_payload w3.zstdio
"""

ROCKY_RELEASE = (
    PREAMBLE
    + r"""Name: rocky-release
Version: 9.6
Release: 1.3.el9
Summary: Rocky Linux release files (fleetbench lab)
License: BSD-3-Clause
BuildArch: noarch
Provides: system-release = 9.6
Provides: system-release(releasever) = 9
Provides: redhat-release = 9.6
Provides: base-module(platform:el9)
%description
Release identity, so that dnf resolves $releasever to 9.
%install
mkdir -p %{buildroot}/etc %{buildroot}/usr/lib/rpm/macros.d
echo 'Rocky Linux release 9.6 (Blue Onyx)' > %{buildroot}/etc/rocky-release
ln -s rocky-release %{buildroot}/etc/redhat-release
ln -s rocky-release %{buildroot}/etc/system-release
printf '%%%%rhel 9\n%%%%rocky 9\n%%%%dist .el9\n%%%%el9 1\n' > %{buildroot}/usr/lib/rpm/macros.d/macros.dist
%files
/etc/rocky-release
/etc/redhat-release
/etc/system-release
/usr/lib/rpm/macros.d/macros.dist
"""
)


def _section(name: str, summary: str, requires: str) -> str:
    header = f"%package {name}\nSummary: {summary}\nAutoReqProv: no\n"
    requirement = f"Requires: {requires}\n" if requires else ""
    return f"{header}{requirement}%description {name}\n{summary}.\n"


def python(interpreter: Interpreter, stage: Path, present: frozenset[str]) -> str:
    """Return the specification of an interpreter.

    `stage` is the directory with the files as they belong on a host; `present` are the paths below it that
    exist, by which optional parts are included (`/usr/lib/python3.12/site-packages/pip` for instance).
    """
    name, minor = interpreter.name, interpreter.minor
    same = "= %{version}-%{release}"
    wheels = f"/usr/lib/{name}/ensurepip/_bundled" if not interpreter.debian else "/usr/share/python-wheels"
    pip = f"/usr/lib/{name}/site-packages/pip" in present
    libs = [
        f"/usr/lib/{name}",
        *sorted(path for path in present if path.startswith("/usr/lib/lib") and ".so." in path),
    ]
    exclude = [f"/usr/lib/{name}/site-packages/*"] if pip else []
    exclude += [f"/usr/lib/{name}/config-{minor}-*"] if f"/usr/lib/{name}/config" in present else []
    exclude += [] if interpreter.debian else [wheels]
    devel = sorted(path for path in present if path.startswith(("/usr/include/", "/usr/lib/pkgconfig/")))
    devel += sorted(path for path in present if path.startswith("/usr/lib/lib") and path.endswith(".so"))
    devel += [f"/usr/bin/{name}-config"] if f"/usr/bin/{name}-config" in present else []
    devel += [f"/usr/lib/{name}/config-{minor}-*"] if f"/usr/lib/{name}/config" in present else []
    parts = [
        PREAMBLE,
        f"Name: {name}\nVersion: {interpreter.version}\nRelease: {RELEASE}\n",
        f"Summary: Version {minor} of the Python interpreter (fleetbench lab)\nLicense: Python-2.0.1\n",
        f"AutoReqProv: no\nRequires: {name}-libs {same}\nProvides: python(abi) = {minor}\n",
        "%description\nThis machine's own CPython, repackaged for lab hosts.\n",
        _section("libs", f"Python {minor} runtime libraries", f"{name}-pip-wheel"),
        _section("devel", f"Python {minor} development files", f"{name} {same}"),
        _section("pip-wheel", "The pip wheel that python -m venv installs", ""),
        _section("pip", f"pip for Python {minor}", f"{name} {same}") if pip else "",
        f"%install\nmkdir -p %{{buildroot}}\ncp -a {stage}/. %{{buildroot}}/\n",
        f"%files\n/usr/bin/{name}\n",
        "%files libs\n"
        + "".join(f"{path}\n" for path in libs)
        + "".join(f"%exclude {path}\n" for path in exclude),
        f"%files pip-wheel\n{wheels}\n",
        "%files devel\n" + "".join(f"{path}\n" for path in devel),
        f"%files pip\n/usr/bin/pip{minor}\n/usr/lib/{name}/site-packages/*\n" if pip else "",
    ]
    return "".join(parts)
