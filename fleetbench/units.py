"""From a `ServiceSpec` to the text of a systemd unit, and the hash that tells two specs apart.

systemd's quoting is not a shell's: `%` starts a specifier everywhere, `$` a variable in Exec lines only,
and C escapes work inside double quotes (systemd.service(5), systemd.exec(5), version 252).
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shlex
from functools import cache
from pathlib import Path

import jinja2

from fleetbench.errors import UsageError, without_secrets
from fleetbench.model import Config, Device, ServiceSpec

OVERRIDE_DIRECTORY = "/etc/fleetbench"
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_SPEC_MARK = "0" * 12
_PROMOTED = re.compile(r"^X-Fleetbench-Promoted=.*\n", re.MULTILINE)


def render(spec: ServiceSpec) -> str:
    """Given a spec, return the unit's text. UsageError when a value cannot stand in a unit file."""
    text = _rendered(spec)
    return text.replace(_SPEC_MARK, _hash(text))


def spec_hash(spec: ServiceSpec) -> str:
    """Given a spec, return the 12-digit hash that its unit carries as FLEETBENCH_SPEC."""
    return _hash(_rendered(spec))


def hash_in(text: str) -> str:
    """Return the hash that a unit's text carries; empty when it has none."""
    found = re.search(r"\bFLEETBENCH_SPEC=([0-9a-f]{12})\b", text)
    return found[1] if found else ""


def hash_of(text: str) -> str:
    """Return the hash that a unit's text should carry: other than `hash_in`, when it was changed by hand."""
    carried = hash_in(text)
    return _hash(text.replace(carried, _SPEC_MARK)) if carried else ""


def as_kept(text: str) -> str:
    """Return a unit's text as a run keeps it: one of ours byte for byte, as its hash is of it.

    One that others wrote, or changed, may hold a secret, which is masked.
    """
    carried = hash_in(text)
    return text if carried and hash_of(text) == carried else without_secrets(text)


def serve_arguments(spec: ServiceSpec) -> tuple[str, ...]:
    """Given a spec, return the server's command line.

    Long option names: they are the same in every vLLM from 0.8 to 0.33.
    """
    config = spec.config
    arguments = [f"{spec.venv}/bin/vllm", "serve", spec.model, "--host", spec.bind, "--port", str(spec.port)]
    arguments += ["--tensor-parallel-size", str(config.tp)]
    arguments += ["--data-parallel-size", str(config.dp)] if config.dp > 1 else []
    arguments += ["--pipeline-parallel-size", str(config.pp)] if config.pp > 1 else []
    arguments += ["--enable-expert-parallel"] if config.ep else []
    if config.max_model_len is not None:
        arguments += ["--max-model-len", str(config.max_model_len)]
    if spec.served_name:
        arguments += ["--served-model-name", spec.served_name]
    return (*arguments, *spec.serve_args, *config.serve_args)


def environment(spec: ServiceSpec) -> tuple[tuple[str, str], ...]:
    """Given a spec, return the unit's environment in order; the host's and model's own come last and win."""
    # All trials of a host share one: what one compiled for a model, the next one finds. Nothing else below
    # the prefix can be written, so a cache that is not named here is made anew at each start.
    cache_directory = f"{spec.prefix}/cache/{spec.cache or (spec.name if spec.persistent else 'sweep')}"
    names = {
        "FLEETBENCH_SPEC": _SPEC_MARK,
        "FLEETBENCH_PORT": str(spec.port),
        "FLEETBENCH_GPUS": str(spec.gpus),
        "FLEETBENCH_BUILD": spec.build,
        "PATH": f"{spec.venv}/bin:/usr/local/cuda/bin:/usr/bin:/bin",  # flashinfer's JIT looks for ninja
        "HOME": spec.prefix,
        "HF_HOME": f"{spec.prefix}/models/huggingface",
        "VLLM_CACHE_ROOT": f"{cache_directory}/vllm",
        "TRITON_CACHE_DIR": f"{cache_directory}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{cache_directory}/inductor",
        "FLASHINFER_WORKSPACE_BASE": cache_directory,
        "CUDA_CACHE_PATH": f"{cache_directory}/cuda",  # what the driver compiles from PTX
        "XDG_CACHE_HOME": cache_directory,  # torch's C++ extensions, and whoever else asks
        "VLLM_NO_USAGE_STATS": "1",
    }
    if spec.gpus.indices:
        visible = "HIP_VISIBLE_DEVICES" if spec.device is Device.ROCM else "CUDA_VISIBLE_DEVICES"
        names |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", visible: str(spec.gpus)}
    return tuple((names | dict(spec.env)).items())


def environment_in(text: str) -> dict[str, str]:
    """Given the text of a unit that `render` made, return its environment as it was asked for, by name."""
    lines = (
        line.removeprefix("Environment=") for line in text.splitlines() if line.startswith("Environment=")
    )
    words = (_unquoted(line).partition("=") for line in lines)
    return {name: value for name, _, value in words}


def exec_arguments(text: str) -> tuple[str, ...]:
    """Given the text of a unit that `render` made, return the server's arguments as it was asked for them."""
    line = next((x for x in text.splitlines() if x.startswith("ExecStart=")), "")
    try:
        words = shlex.split(line.removeprefix("ExecStart="))
    except ValueError:
        return ()
    return tuple(word.replace("$$", "$").replace("%%", "%") for word in words)


def served_by(text: str) -> tuple[str, str, Config]:
    """Given the text of one of our units, return model, served name and configuration.

    UsageError when it is no unit of ours: the text comes from a host, and may have been edited there.
    """
    words = exec_arguments(text)
    value = dict(itertools.pairwise(words[3:]))
    sizes = [value.get(f"--{name}-parallel-size", "1") for name in ("tensor", "data", "pipeline")]
    length = value.get("--max-model-len", "1")
    names = (*words[2:3], value.get("--served-model-name", ""))
    if (
        len(words) < 3
        or words[1] != "serve"
        or not all(re.fullmatch(r"[1-9][0-9]{0,8}", number) for number in (*sizes, length))
        or not all(name.isprintable() and not name.startswith("-") for name in names)
    ):
        raise UsageError("the unit was not written by fleetbench", next_step="invoke deploy … first")
    tp, dp, pp = map(int, sizes)
    config = Config(
        tp=tp,
        dp=dp,
        pp=pp,
        ep="--enable-expert-parallel" in words,
        max_model_len=int(length) if "--max-model-len" in value else None,
    )
    return names[0], names[1], config


def override_path(spec: ServiceSpec) -> str:
    """Where operators put `KEY=value` lines of their own; read at each start, may be absent."""
    return f"{OVERRIDE_DIRECTORY}/{spec.name}.env"


def systemd_argument(value: str) -> str:
    """Quote one argument of an Exec line: nothing in it is special to systemd afterwards."""
    if _PLAIN.fullmatch(value):
        return value
    return '"' + _escaped(value).replace("%", "%%").replace("$", "$$") + '"'


def systemd_env(value: str) -> str:
    """Quote one `KEY=value` of an Environment line, where `$` has no meaning but `%` has."""
    if _PLAIN.fullmatch(value):
        return value
    return '"' + _escaped(value).replace("%", "%%") + '"'


def systemd_text(value: str) -> str:
    """Free text for Description: one line, no specifiers."""
    printable = "".join(c if c.isprintable() else "?" for c in value)
    return printable.replace("\\", "\\\\").replace("%", "%%")


def templates_directory() -> Path:
    """The `templates/` folder of the product, beside the package."""
    return Path(__file__).resolve().parent.parent / "templates"


def template(name: str) -> jinja2.Template:
    """Return a template of the product by its file's name; names that it is not given are errors."""
    return _jinja().get_template(name)


@cache
def _jinja() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_directory()),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701  unit files; quoting is systemd's, by the filters below
    )
    made.filters["systemd_env"] = systemd_env
    made.filters["systemd_text"] = systemd_text
    made.filters["header_variable"] = lambda name: name.lower().replace("-", "_")  # as nginx's $http_… has it
    made.filters["systemd_arguments"] = lambda values: " ".join(map(systemd_argument, values))
    return made


def _rendered(spec: ServiceSpec) -> str:
    _refuse_unsafe(spec)
    return template("vllm.service.j2").render(
        spec=spec,
        environment=environment(spec),
        arguments=serve_arguments(spec),
        override=override_path(spec),
    )


def _refuse_unsafe(spec: ServiceSpec) -> None:
    """Values that stand bare in the unit (paths, names) must be plain; the rest is quoted."""
    for what, value in (("unit name", spec.name), ("user", spec.user), ("cache", spec.cache or spec.name)):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", value):
            raise UsageError(f"{what} cannot be used in a unit: {value!r}")
    for what, value in (("prefix", spec.prefix), ("venv", spec.venv)):
        if not re.fullmatch(r"/[A-Za-z0-9_.+/@-]*", value) or ".." in value.split("/"):
            raise UsageError(f"{what} cannot be used in a unit: {value!r}", next_step="use a plain path")
    for name, value in spec.env.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\x00" in value:
            raise UsageError(f"environment variable cannot be used in a unit: {name!r}")
    if spec.model.startswith("-"):
        raise UsageError(f"model name would be read as an option: {spec.model!r}")
    for value in (spec.model, spec.served_name, *spec.serve_args, *spec.config.serve_args):
        if any(not c.isprintable() for c in value):
            raise UsageError(
                f"model name or argument has a control character: {value!r}",
                next_step="write it without line breaks and escapes",
            )


def _escaped(value: str) -> str:
    out = []
    for c in value:
        if c in '\\"':
            out.append("\\" + c)
        elif c == "\n":
            out.append("\\n")
        elif c.isprintable():
            out.append(c)
        else:
            out.extend(f"\\x{byte:02x}" for byte in c.encode())
    return "".join(out)


def _unquoted(word: str) -> str:
    """Return what `systemd_env` was given."""
    if not word.startswith('"'):
        return word
    parts = re.split(r"\\(x[0-9a-f]{2}|.)", word[1:-1].replace("%%", "%"))
    read = bytearray()
    for place, part in enumerate(parts):
        if place % 2 == 0:
            read += part.encode()
        elif part.startswith("x") and len(part) > 1:
            read.append(int(part[1:], 16))
        else:
            read += b"\n" if part == "n" else part.encode()
    return read.decode("utf-8", "replace")


def _hash(text: str) -> str:
    """Hash a unit's text; from which trial it was promoted changes nothing about the service."""
    return hashlib.sha256(_PROMOTED.sub("", text).encode()).hexdigest()[:12]
