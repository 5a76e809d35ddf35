"""Copy an interpreter's files below a directory as they belong on a host: the content of its packages."""

from __future__ import annotations

import shutil
from pathlib import Path

from fleetbench.lab.commands import run
from fleetbench.lab.interpreter import Interpreter
from fleetbench.lab.libraries import Libraries

# Parts of the standard library that no server needs; Rocky has them in packages of their own.
LEFT_OUT = (
    "__pycache__",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "lib2to3",
    "_tkinter*",
    "_test*",
    "xx*",
    "_xx*",
    "_ctypes_test*",
    "*.a",
    "site-packages",
    "dist-packages",
    "sitecustomize.py",  # Debian's link into /etc
    "EXTERNALLY-MANAGED",  # Debian's and uv's bar against pip; Rocky has none
)


def stage(interpreter: Interpreter, libraries: Libraries, directory: Path) -> frozenset[str]:
    """Fill `directory` and return the paths in it that the package lists need, as seen on the host."""
    usr = directory / "usr"
    for part in ("bin", "lib", "include"):
        (usr / part).mkdir(parents=True, exist_ok=True)
    binary = usr / "bin" / interpreter.name
    shutil.copy2(interpreter.executable, binary)
    stdlib = usr / "lib" / interpreter.name
    shutil.copytree(interpreter.stdlib, stdlib, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for library in libraries.files:
        shutil.copy2(library.resolve(), usr / "lib" / library.name)
    _headers(interpreter, usr)
    _pip(interpreter, usr, stdlib)
    if not interpreter.debian:
        _relocate(usr, str(interpreter.prefix))
    # A hash that is never checked: file times change on their way through RPM and overlay layers.
    run(
        [
            *(
                str(interpreter.executable),
                "-I",
                "-m",
                "compileall",
                "-q",
                "-j2",
                "-s",
                str(directory),
                "-p",
                "/",
            ),
            *("--invalidation-mode", "unchecked-hash", str(stdlib)),
        ],
        timeout_s=600,
        accept=(0, 1),  # 1: a file is broken on purpose (lib2to3's test data)
    )
    return _present(usr, interpreter)


def _headers(interpreter: Interpreter, usr: Path) -> None:
    """Copy what compiling against the interpreter needs, as far as it is installed."""
    if not interpreter.has_headers:
        return
    shutil.copytree(interpreter.include, usr / "include" / interpreter.name)
    multiarch = interpreter.include.parent / interpreter.multiarch / interpreter.name
    if interpreter.multiarch and multiarch.is_dir():  # Debian keeps pyconfig.h there
        shutil.copytree(multiarch, usr / "include" / interpreter.multiarch / interpreter.name)
    config = interpreter.executable.parent / f"{interpreter.name}-config"
    if config.exists():
        shutil.copy2(config.resolve(), usr / "bin" / config.name)
    for library in (*interpreter.prefix.glob(f"lib/libpython{interpreter.minor}.so"),):
        shutil.copy2(library, usr / "lib" / library.name, follow_symlinks=False)
    for page in (*interpreter.prefix.glob(f"lib/pkgconfig/python-{interpreter.minor}*.pc"),):
        (usr / "lib" / "pkgconfig").mkdir(exist_ok=True)
        shutil.copy2(page, usr / "lib" / "pkgconfig" / page.name)


def _pip(interpreter: Interpreter, usr: Path, stdlib: Path) -> None:
    """Copy the wheels for `python -m venv`, and pip itself where the interpreter carries it; nothing else of
    its site-packages, which may hold anything."""
    if interpreter.debian:
        shutil.copytree(interpreter.wheels, usr / "share" / "python-wheels")
        return
    installed = interpreter.stdlib / "site-packages"
    command = interpreter.executable.parent / f"pip{interpreter.minor}"
    if (installed / "pip").is_dir() and command.exists():
        for part in (installed / "pip", *installed.glob("pip-*.dist-info")):
            target = stdlib / "site-packages" / part.name
            shutil.copytree(part, target, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy2(command, usr / "bin" / command.name)


def _relocate(usr: Path, prefix: str) -> None:
    """Replace the interpreter's old prefix by /usr in every text file."""
    old = prefix.encode()
    for path in usr.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 2_000_000:
            continue
        content = path.read_bytes()
        if old in content and b"\0" not in content:
            path.write_bytes(content.replace(old, b"/usr"))


def _present(usr: Path, interpreter: Interpreter) -> frozenset[str]:
    """Return the paths that package lists are made of, beginning with /usr."""
    root = usr.parent
    places = [
        *usr.glob("bin/*"),
        *usr.glob("lib/lib*.so*"),
        *usr.glob("lib/pkgconfig/*"),
        *usr.glob("include/*python*"),
    ]
    places += [
        *usr.glob(f"include/*/{interpreter.name}"),
        *usr.glob(f"lib/{interpreter.name}/site-packages/pip"),
    ]
    found = {"/" + str(path.relative_to(root)) for path in places}
    if any(usr.glob(f"lib/{interpreter.name}/config-{interpreter.minor}-*")):
        found.add(f"/usr/lib/{interpreter.name}/config")
    return frozenset(found)
