# ruff: noqa: E501  (one row a case)
"""Mistakes in models.toml and sweeps.toml, in TOML itself and between files, with their exact places and words."""

from __future__ import annotations

from pathlib import Path

import pytest
from inventory_files import HOSTS, MODELS, NAME_RULE, SWEEPS, problems

from fleetbench.errors import InventoryError
from fleetbench.inventory import InventoryProblems, load


def test_the_files_without_a_mistake_load(tmp_path: Path) -> None:
    assert problems(tmp_path) == []


SERVE = "an argument of vllm serve, text without control characters"
REPO = "owner/name on Hugging Face, or an absolute path of plain characters"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[models.x]", "1: models.x: expected the key repo, which has no default"),
        ('[models.x]\nrepo = "a/b/c"', f'2: models.x.repo: expected {REPO}, found "a/b/c"'),
        ('[models.x]\nrepo = "a\\nb"', f'2: models.x.repo: expected {REPO}, found "a b"'),
        ('[models.x]\nrepo = "\\"; touch /tmp/x"', f'2: models.x.repo: expected {REPO}, found ""; touch /tmp/x"'),
        ('[models.x]\nrepo = "%n/$HOME"', f'2: models.x.repo: expected {REPO}, found "%n/$HOME"'),
        ('[models.x]\nrepo = "--help"', f'2: models.x.repo: expected {REPO}, found "--help"'),
        ('[models.x]\nrepo = "a/b"\nsweep = "tp-pd"', '3: models.x.sweep: no sweep is called "tp-pd"; did you mean tp-dp?'),
        ('[models.x]\nrepo = "a/b"\nmax_model_len = 0', "3: models.x.max_model_len: expected a whole number from 1 to 100000000, found 0"),
        ('[models.x]\nrepo = "a/b"\ngated = "yes"', '3: models.x.gated: expected true or false, found "yes"'),
        ('[models.x]\nrepo = "a/b"\nserve_args = "--x"', '3: models.x.serve_args: expected a list, found "--x"'),
        ('[models.x]\nrepo = "a/b"\nserve_args = [\n"--x",\n3]', f"5: models.x.serve_args[1]: expected {SERVE}, found 3"),
        ('[models.x]\nrepo = "a/b"\nserve_args = ["-tp=2"]', "3: models.x.serve_args[0]: expected no -tp here: write tp in a sweep, or --tp of the command"),
        ('[models.x]\nrepo = "a/b"\nserve_args = ["--max_model_len", "9"]', "3: models.x.serve_args[0]: expected no --max-model-len here: write max_model_len"),
        ('[models.x]\nrepo = "a/b"\nserve_args = ["--dtype half"]', '3: models.x.serve_args[0]: expected one argument an element, as in ["--dtype", "…"]'),
        ('[models.llama-3.1-8b]\nrepo = "a/b"', "1: models.llama-3: expected the key repo, which has no default"),
        ('[models."x y"]\nrepo = "a/b"', f'1: models."x y": expected a name of {NAME_RULE}'),
        ("models = 3", "1: models: expected tables [models.NAME], found 3"),
        ("[models]\nx = 3", "2: models.x: expected a table [models.NAME], found 3"),
    ],
)  # fmt: skip
def test_a_wrong_model_is_named(tmp_path: Path, text: str, expected: str) -> None:
    assert f"models.toml:{expected}" in problems(tmp_path, models=text)


def test_a_model_name_with_a_dot_and_no_quotes_is_explained(tmp_path: Path) -> None:
    found = problems(tmp_path, models='[models.llama-3.1-8b]\nrepo = "a/b"\n')
    assert any('quote a name that holds a dot, as in [models."llama-3.1-8b"]' in line for line in found)


SERVE_ARGS = 'expected a table of flags such as {"--max-num-seqs" = [256, 512]}'
VARIANTS = 'expected a table of argument lists such as {plain = [], eager = ["--enforce-eager"]}'
PARALLEL = (
    'expected "all" or "all+units", "tp", "dp", "pp" or "units", a list of these four,'
    " or a list of tables such as {tp = 2}"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('parallel = "al"', '2: sweeps.x.parallel: expected all or all+units or tp or dp or pp or units, found "al"; did you mean all?'),
        ('parallel = ["tp", "xp"]', '2: sweeps.x.parallel[1]: expected tp or dp or pp or units, found "xp"'),
        ('parallel = ["tp", "tp"]', "2: sweeps.x.parallel: expected each entry once, found tp twice"),
        ('parallel = ["tp", {tp = 1}]', f"2: sweeps.x.parallel: {PARALLEL}"),
        ("parallel = []", f"2: sweeps.x.parallel: {PARALLEL}"),
        ("parallel = 2", f"2: sweeps.x.parallel: {PARALLEL}"),
        ("parallel = [\n{tp = 1},\n{tp = 0}]", "4: sweeps.x.parallel[1].tp: expected a whole number from 1 to 1024, found 0"),
        ("parallel = [{tpp = 1}]", "2: sweeps.x.parallel[0].tpp: no such key here; did you mean tp or pp?"),
        ("parallel = [{tp = 2}, {dp = 1, tp = 2}]", "2: sweeps.x.parallel: expected each entry once, found tp=2 dp=1 twice"),
        ('parallel = ["all", "units"]', '2: sweeps.x.parallel[0]: expected tp or dp or pp or units, found "all"'),
        ('builds = "stable"', '2: sweeps.x.builds: no build is called "stable"; known: cuda'),
        ('builds = ["cuda", "cude"]', '2: sweeps.x.builds[1]: no build is called "cude"; did you mean cuda?'),
        ("serve_args = []", "2: sweeps.x.serve_args: {SERVE_ARGS}"),
        ("serve_args = {}", "2: sweeps.x.serve_args: {SERVE_ARGS}"),
        ("serve_args = { max-num-seqs = 8 }", "2: sweeps.x.serve_args.max-num-seqs: expected a flag of vllm serve by its long name, in quotes: \"--max-num-seqs\""),
        ('serve_args."-q" = "fp8"', '2: sweeps.x.serve_args.-q: expected a flag of vllm serve by its long name, in quotes: "--max-num-seqs"'),
        ('serve_args."--port" = [1, 2]', "2: sweeps.x.serve_args.--port: expected no --port here: write ports of the host, or --port of the command"),
        ('serve_args."--tensor_parallel_size" = 2', "2: sweeps.x.serve_args.--tensor_parallel_size: expected no --tensor-parallel-size here: write tp in a sweep, or --tp of the command"),
        ('serve_args."--max-num-seqs" = []', "2: sweeps.x.serve_args.--max-num-seqs: expected one value or a list of at most 100, found a list of 0"),
        ('serve_args."--max-num-seqs" = [8, 8]', "2: sweeps.x.serve_args.--max-num-seqs: expected each value once: it would be measured twice and counted as two"),
        ('serve_args."--max-num-seqs" = [8, {}]', "2: sweeps.x.serve_args.--max-num-seqs[1]: expected true, false, a number, or text without control characters, found a table"),
        ('serve_args."--max-num-seqs" = [8, nan]', "2: sweeps.x.serve_args.--max-num-seqs[1]: expected true, false, a number, or text without control characters, found nan"),
        ("variants = 3", "2: sweeps.x.variants: {VARIANTS}"),
        ('variants."a b" = []', '2: sweeps.x.variants."a b": expected a name of {NAME_RULE}'),
        ('variants.a = ["--model=x"]', "2: sweeps.x.variants.a[0]: expected no --model here: write repo"),
        ("max_model_len = []", "2: sweeps.x.max_model_len: expected a list of at least 1, found a list of 0"),
        ("max_model_len = [1024, 0]", "2: sweeps.x.max_model_len[1]: expected a whole number from 1 to 100000000, found 0"),
        ("repeats = 0", "2: sweeps.x.repeats: expected a whole number from 1 to 1000, found 0"),
        ("ready_timeout_s = inf", "2: sweeps.x.ready_timeout_s: expected a number of seconds from 1 to 604800, found inf"),
        ("workloads = {}", "2: sweeps.x.workloads: no such table here; did you mean workload?"),
        ("workload = 3", "2: sweeps.x.workload: expected a table, found 3"),
        ("workload = []", "2: sweeps.x.workload: expected a table, or a list of tables, found a list of 0"),
        ("workload = { max_concurency = 1 }", "2: sweeps.x.workload.max_concurency: no such key here; did you mean max_concurrency?"),
        ("workload = { temperature = nan }", "2: sweeps.x.workload.temperature: expected a number from 0 to 10, found nan"),
        ("workload = { request_rate = inf }", "2: sweeps.x.workload.request_rate: expected a number of requests/s from 0.001 to 1e+06, found inf"),
        ('workload = { dataset = "sharegtp" }', '2: sweeps.x.workload.dataset: expected random or custom or sharegpt, found "sharegtp"; did you mean sharegpt?'),
        ('workload = { dataset = "custom" }', '2: sweeps.x.workload: expected the key prompts, the file that dataset = "custom" is read from'),
        ('workload = { prompts = "x" }', '2: sweeps.x.workload.prompts: expected no prompts with dataset = "random"; write dataset = "custom"'),
        ("[[sweeps.x.workload]]\n[[sweeps.x.workload]]\ninput_len = 0", "4: sweeps.x.workload[1].input_len: expected a whole number from 1 to 10000000, found 0"),
    ],
)  # fmt: skip
def test_a_wrong_sweep_is_named(tmp_path: Path, text: str, expected: str) -> None:
    found = problems(tmp_path, sweeps=f"{SWEEPS}\n[sweeps.x]\n{text}\n".removeprefix(SWEEPS + "\n"))
    words = {"{SERVE_ARGS}": SERVE_ARGS, "{VARIANTS}": VARIANTS, "{NAME_RULE}": NAME_RULE}
    for word, meaning in words.items():
        expected = expected.replace(word, meaning)
    assert f"sweeps.toml:{expected}" in found


def test_lists_that_multiply_without_end_are_refused(tmp_path: Path) -> None:
    many = ", ".join(map(str, range(1, 41)))
    found = problems(
        tmp_path, sweeps=f"[sweeps.x]\nworkload = {{ input_len = [{many}], output_len = [{many}] }}\n"
    )
    assert found == [
        "sweeps.toml:2: sweeps.x.workload: expected at most 1000 workloads, found lists that multiply to 1600"
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[sweeps.x]\nrepeats = = 3\n", "2: not valid TOML: Invalid value: repeats = = 3"),
        ("[sweeps.x]\n[sweeps.x]\n", "2: not valid TOML: Cannot declare ('sweeps', 'x') twice: [sweeps.x]"),
        ("[sweeps.x]\nseed = 1\nseed = 2\n", "3: not valid TOML: Cannot overwrite a value: seed = 2"),
        ('[sweeps.x]\nparallel = """all\n', "2: not valid TOML: Unterminated string: parallel = "),
        (b"[sweeps.x]\n# \xff\n", "2: expected UTF-8, found byte 0xff"),
        (b"a = " + b"[" * 100_000, "1: expected TOML, found tables or arrays nested too deeply"),
        (b"a = " + b"9" * 10_000, "1: not valid TOML: "),
        (b"# " + b"x" * 5_000_000, "1: expected at most 4194304 bytes, found 5000002"),
    ],
)
def test_a_file_that_is_not_toml_is_named_with_its_line(
    tmp_path: Path, content: str | bytes, expected: str
) -> None:
    found = problems(tmp_path, sweeps=content)
    assert len(found) == 1
    assert found[0].startswith(f"sweeps.toml:{expected}")


def test_mistakes_in_several_files_are_all_reported_in_order(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        hosts=HOSTS + "gpu_cont = 1\nuser = 3\n[hosts.b]\nports = 1\n",
        models='[models.tiny]\nrepoo = "a/b"\n',
        sweeps="[sweeps.tp-dp]\nrepeats = 0\nseed = -1\n",
    )
    assert [line.split(": ")[0] for line in found] == [
        "hosts.toml:7",
        "hosts.toml:8",
        "hosts.toml:10",
        "models.toml:1",
        "models.toml:2",
        "sweeps.toml:2",
        "sweeps.toml:3",
    ]


def test_a_broken_file_does_not_make_the_others_look_wrong(tmp_path: Path) -> None:
    models = MODELS + 'sweep = "defined-in-the-broken-file"\n'
    assert problems(tmp_path, models=models, sweeps="= 1") == [
        "sweeps.toml:1: not valid TOML: Invalid statement: = 1"
    ]
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "hosts.toml").write_text(
        '[hosts.l]\n[hosts.m]\nbuild="gone"\n[groups.g]\nhosts="x"\n'
    )
    assert problems(tmp_path, hosts="= 1") == ["hosts.toml:1: not valid TOML: Invalid statement: = 1"]


def test_a_host_without_a_build_is_named_once_for_a_range(tmp_path: Path) -> None:
    found = problems(tmp_path, hosts='[builds.cuda]\nversion = "1"\n[hosts."h[1-8]"]\n')
    assert found == [
        'hosts.toml:3: hosts."h[1-8]": expected the key build here, in a group or in [defaults]; known: cuda'
    ]


def test_a_wrong_build_in_the_defaults_is_one_problem_and_not_one_for_each_host(tmp_path: Path) -> None:
    found = problems(tmp_path, hosts=HOSTS.replace('build = "cuda"', 'build = "cuba"'))
    assert found == ['hosts.toml:2: defaults.build: no build is called "cuba"; did you mean cuda?']


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("hosts", "[hosts.a100-01]", "lab/hosts.toml:1: hosts.a100-01: host a100-01 is already defined at hosts.toml:6"),
        ("hosts", '[builds.cuda]\nversion = "1"', "lab/hosts.toml:1: builds.cuda: build cuda is already defined at hosts.toml:3"),
        ("models", '\n[models.tiny]\nrepo = "a/b"', "lab/models.toml:2: models.tiny: model tiny is already defined at models.toml:1"),
        ("sweeps", "[sweeps.tp-dp]", "lab/sweeps.toml:1: sweeps.tp-dp: sweep tp-dp is already defined at sweeps.toml:1"),
    ],
)  # fmt: skip
def test_a_name_defined_in_two_files_names_both(
    tmp_path: Path, name: str, content: str, expected: str
) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / f"{name}.toml").write_text(content + "\n")
    assert [line.replace(f"{tmp_path}/", "") for line in problems(tmp_path)] == [expected]


def test_a_directory_without_an_inventory_says_what_to_do(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "absent", tmp_path / "file"):
        (tmp_path / "file").write_text("")
        with pytest.raises(InventoryError) as caught:
            load(directory)
        assert str(directory) in str(caught.value)
        assert "--inventory DIR" in caught.value.next_step


def test_terminal_escapes_in_a_file_never_reach_the_message(tmp_path: Path) -> None:
    found = problems(tmp_path, hosts=HOSTS + '"\\u001b[2J\\nfake" = "\\u001b[31m"\n')
    assert len(found) == 1
    assert found[0].isprintable()


def test_paths_are_shown_relative_to_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "models.toml").write_text("[models.x]\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InventoryProblems, match=r"^inventory/models.toml:1: models\.x: "):
        load(Path("inventory"))
