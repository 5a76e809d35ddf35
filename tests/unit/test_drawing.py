"""Renderers beside the process: the same pictures, errors in words, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fleetbench.drawing.drawers import Drawers
from fleetbench.drawing.vega import png_of, svg_of
from fleetbench.errors import FleetbenchError

ROOT = Path(__file__).parents[2]


def bars(count: int) -> dict[str, Any]:
    values = [{"name": f"tp={number}", "tokens": 1000 * number} for number in range(1, count + 1)]
    encoding = {"x": {"field": "tokens", "type": "quantitative"}, "y": {"field": "name"}}
    return {"data": {"values": values}, "mark": "bar", "encoding": encoding}


def test_a_picture_is_the_one_that_this_process_would_draw() -> None:
    with Drawers() as drawers:
        drawn = [drawers.draw(bars(count)) for count in range(1, 7)]
        for count, picture in enumerate(drawn, 1):
            assert picture.result().svg == svg_of(bars(count))
            assert picture.result().png == png_of(bars(count))


def test_what_cannot_be_drawn_is_an_error_and_the_next_is_drawn() -> None:
    with Drawers(1) as drawers:
        refused = drawers.draw({"mark": "no such mark"})
        drawn = drawers.draw(bars(2))
        with pytest.raises(FleetbenchError) as error:
            refused.result()
        assert error.value.what == "cannot draw a chart"
        assert error.value.cause
        assert drawn.result().svg == svg_of(bars(2))


def test_a_renderer_that_ends_is_an_error_with_its_last_words(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "vl_convert.py").write_text("raise SystemExit('no fonts on this machine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Drawers(1) as drawers, pytest.raises(FleetbenchError) as error:
        drawers.draw(bars(1)).result()
    assert "no fonts on this machine" in error.value.cause


def test_a_library_that_is_not_there_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "vl_convert.py").write_text("raise ImportError('No module named vl_convert')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Drawers(1) as drawers, pytest.raises(FleetbenchError) as error:
        drawers.draw(bars(1)).result()
    assert (error.value.what, error.value.next_step) == (
        "cannot draw charts",
        "pip install altair vl-convert-python",
    )


def test_no_module_comes_from_the_working_directory(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "vl_convert.py").write_text("raise SystemExit('from a folder that anybody may write to')")
    monkeypatch.chdir(tmp_path)
    with Drawers(1) as drawers:
        assert drawers.draw(bars(1)).result().svg == svg_of(bars(1))


def test_without_a_chart_no_renderer_is_started_and_a_started_one_is_gone_afterwards() -> None:
    with Drawers() as drawers:
        assert not drawers.processes
    with Drawers(2) as drawers:
        drawers.start()
        started = drawers.processes
        assert started
        assert all(os.getsid(process) == process for process in started)  # Ctrl-C does not reach them
    assert not any(alive(process) for process in started)


def test_renderers_end_with_a_parent_that_was_killed() -> None:
    program = (
        "import sys, time; from fleetbench.drawing.drawers import Drawers\n"
        "drawers = Drawers().__enter__(); drawers.start()\n"
        "print(*drawers.processes, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        renderers = [int(process) for process in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
    assert renderers
    by = time.monotonic() + 20
    while any(alive(process) for process in renderers) and time.monotonic() < by:
        time.sleep(0.05)
    assert not any(alive(process) for process in renderers)


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_module_beside_the_package_never_takes_the_place_of_python_s_own(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """In a folder of packages that is not an editable install, a backport may lie beside ours."""
    (tmp_path / "fleetbench").symlink_to(ROOT / "fleetbench")
    for name in ("dataclasses", "pathlib", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a backport for Python 3.3')")
    monkeypatch.setattr("fleetbench.drawing.drawers._BEHIND_THE_PACKAGE", tmp_path)
    with Drawers(1) as drawers:
        assert drawers.draw(bars(1)).result().svg == svg_of(bars(1))


def test_a_drawing_that_takes_too_long_is_ended_and_said_to_have(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "vl_convert.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("fleetbench.drawing.drawers.LONGEST_S", 0.5)
    with Drawers(1) as drawers:
        with pytest.raises(FleetbenchError) as error:
            drawers.draw(bars(1)).result()
        assert error.value.cause == "the renderer ended: it took longer than 0.5 s"
        assert not any(alive(process) for process in drawers.processes)
