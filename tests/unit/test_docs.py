"""The documentation says what the code does: pages that are made are current, links and rules hold."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import click
import pytest
from docs_pages import DOCS, PAGES, ROOT, generate, read

from fleetbench.model import Workload
from fleetbench.results.values import BenchResult
from fleetbench.results.verdict import judge

# ---------------------------------------------------------------- what is made from the code


@pytest.mark.parametrize("path", generate.pages(), ids=lambda path: path.name)
def test_a_page_is_as_generate_py_would_write_it(path: Path) -> None:
    assert read(path) == generate.pages()[path], "run: python docs/generate.py"


def test_the_generated_tables_are_where_they_belong() -> None:
    found = {match["name"]: path.name for path in PAGES for match in generate.MARK.finditer(read(path))}
    assert set(found) == {*generate.tables(), *generate.whole_tables()}
    assert {found[name] for name in generate.tables()} == {"inventory.md"}
    assert {found[name] for name in generate.whole_tables()} == {"verdicts.md"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_row_of_a_generated_table_has_a_meaning(path: Path) -> None:
    for match in generate.MARK.finditer(read(path)):
        rows = match["body"].splitlines()[2:]
        assert [row for row in rows if not re.search(r"\w.* \|$", row.rsplit(" | ", 1)[-1])] == []


def test_a_key_that_is_new_would_make_the_page_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    from fleetbench.inventory import keys

    real = keys.build_keys()
    monkeypatch.setattr(keys, "build_keys", lambda: dict(list(real.items())[:-1]))
    assert generate.pages()[DOCS / "inventory.md"] != read(DOCS / "inventory.md")


# ---------------------------------------------------------------- help


def test_every_task_has_a_sentence_and_every_option_of_it_has_help() -> None:
    missing = []
    for context in generate.collection().to_contexts():
        task = generate.collection()[context.name]
        missing += [] if (task.__doc__ or "").strip().endswith(".") else [f"invoke {context.name}"]
        missing += [f"invoke {context.name} --{a.name}" for a in context.args.values() if not a.help]
    assert missing == []


def test_every_click_command_has_a_sentence_and_every_option_of_it_has_help() -> None:
    missing = []
    for context, command in generate.click_commands():
        missing += [] if (command.help or "").strip() else [context.command_path]
        options = [p for p in command.params if isinstance(p, click.Option)]
        missing += [f"{context.command_path} {option.opts[0]}" for option in options if not option.help]
    assert missing == []


def test_every_command_and_option_appears_in_the_reference() -> None:
    page = read(DOCS / "cli.md")
    for context in generate.collection().to_contexts():
        section = page.partition(f"### invoke {context.name}\n")[2].partition("\n### ")[0]
        assert section, context.name
        for argument in context.args.values():
            name = str(argument.name).replace("_", "-")
            assert f"`--{name}" in section or f"`{name.upper()}`" in section, (context.name, name)
    for context, command in generate.click_commands():
        section = page.partition(f"### {context.command_path}\n")[2].partition("\n### ")[0]
        assert section, context.command_path
        for option in (p for p in command.params if isinstance(p, click.Option)):
            assert f"`{max(option.opts, key=len)}" in section, (context.command_path, option.opts)


# ---------------------------------------------------------------- variables, rules, links


@cache
def _variables_in_code() -> frozenset[str]:
    folders = (ROOT / "fleetbench", ROOT / "templates")
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".sh", ".j2")]
    names = {
        name
        for path in (*files, ROOT / "tasks.py")
        for name in re.findall(r"(?<![A-Z_])FLEETBENCH_[A-Z]\w*", read(path))
    }
    return frozenset(names)


def test_every_variable_in_the_code_is_documented_and_every_documented_one_is_in_the_code() -> None:
    rows = re.findall(r"^\| `(FLEETBENCH_\w+)`", read(DOCS / "operators.md"), re.MULTILINE)
    assert sorted(rows) == sorted(_variables_in_code())
    mentioned = {name for path in PAGES for name in re.findall(r"(?<![A-Z_])FLEETBENCH_[A-Z]\w*", read(path))}
    assert mentioned <= _variables_in_code()


def test_a_measurement_at_the_documented_thresholds_is_valid_and_one_below_them_is_not() -> None:
    page = read(DOCS / "verdicts.md")
    limit = {
        name: float(value) for name, value in re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page, re.MULTILINE)
    }
    concurrency = 100

    def verdict(*, waves: float, share: float) -> str:
        prompts = int(waves * concurrency)
        workload = Workload(num_prompts=prompts, output_len=100, max_concurrency=concurrency)
        result = BenchResult(
            completed=prompts,
            failed=0,
            duration=10.0,
            request_throughput=prompts / 10,
            output_throughput=prompts * 10 * share,
            total_output_tokens=int(prompts * 100 * share),
        )
        return judge(result, workload).verdict.value

    waves = limit["waves"]
    assert verdict(waves=waves, share=1.0) == "valid"
    assert verdict(waves=waves - 0.01, share=1.0) == "suspect"
    assert verdict(waves=waves, share=limit["output_short"]) == "valid"
    assert verdict(waves=waves, share=limit["output_short"] - 0.001) == "invalid"
    assert verdict(waves=waves, share=limit["output_long"] + 0.001) == "suspect"


def _anchors(text: str) -> set[str]:
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", read(path)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists() or (anchor and anchor not in _anchors(read(file))):
            broken.append(target)
    assert broken == []


def test_every_page_is_reachable_from_the_readme() -> None:
    linked = set(re.findall(r"\(docs/(\w+\.md)\)", read(ROOT / "README.md")))
    assert linked == {path.name for path in DOCS.glob("*.md")}


def test_the_readme_can_be_read_at_one_sitting() -> None:
    assert len(read(ROOT / "README.md").splitlines()) <= 150


@pytest.mark.parametrize("path", [p for p in PAGES if p.name != "cli.md"], ids=lambda path: path.name)
def test_prose_has_one_sentence_a_line(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", read(path), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "code", text)
    prose = [
        line for line in text.splitlines() if line and not line.startswith(("|", "    ", "#", "- ", "<!--"))
    ]
    assert [line for line in prose if re.search(r"[a-z)][.!?] [A-Z]", line)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_page_names_a_path_of_the_machine_it_was_written_on(path: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:work|root|home/[a-z]+)/\S*", read(path)) == []
