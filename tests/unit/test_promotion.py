"""From a trial's rows to the service that equals it: placed, compared, refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nouns import HOST, MODEL, gpu, unit
from promoted_trials import NGINX, ODD_MODEL, file_of, found, installed, measured_trial, running, target
from report_rows import TOO_LITTLE_MEMORY, measurement, repeats, result, run

from fleetbench.errors import NotPossible, Occupied, UsageError
from fleetbench.facts.values import File, GpuProcess, Listener, Unit, Venv
from fleetbench.model import Build, Config, GpuSet, TrialState
from fleetbench.promotion.candidate import candidate, doubts, refuse_doubtful
from fleetbench.promotion.changes import differences_of
from fleetbench.promotion.intent import intent_of, paths_of
from fleetbench.promotion.place import Asked, place_of
from fleetbench.promotion.target import refuse_unequal
from fleetbench.report.summary import summarise
from fleetbench.results.rows import Verdict
from fleetbench.units import render, spec_hash


def test_the_service_has_everything_that_decides_and_a_name_and_place_of_its_own() -> None:
    one = found(measured_trial(model=ODD_MODEL))
    done = target(one)
    (spec,) = done.units.members
    assert done.doubts == ()
    assert done.measured == done.becomes
    assert done.measured.hash == done.becomes.hash
    assert (spec.unit, spec.port, spec.persistent, spec.venv) == (
        "vllm-8001.service",
        8001,
        True,
        HOST.venv_link,
    )
    assert spec.promoted == f"{run().id}/1 1,001 tok/s at c=64"
    assert spec_hash(spec) != one.trial.spec_hash


def test_every_difference_of_the_texts_has_its_reason() -> None:
    shown = differences_of(one := found(measured_trial(model=ODD_MODEL)), target(one))
    reasons = {each.why for each in shown}
    assert not any("decides" in reason for reason in reasons)
    names = {name for each in shown for name in each.names}
    assert {"--port", "Restart", "WantedBy", "XDG_CACHE_HOME", "program"} <= names
    assert "VLLM_CACHE_ROOT" not in names, "the model's own stays where it is"
    assert "A_B" not in names


def test_the_second_promotion_finds_nothing_to_do() -> None:
    for config in (Config(tp=2), Config(units=2)):
        one = found(measured_trial(config))
        done = target(one)
        first = intent_of(done, NGINX)
        assert set(first.starts) == set(done.units.units)
        there = installed(done)
        again = intent_of(target(one, there), there)
        assert (again.steps, again.starts) == ((), {}), config


def test_the_port_is_that_of_the_service_of_this_model_and_its_clients_keep_name_and_address() -> None:
    old = replace(
        target().units.members[0],
        port=8007,
        name="vllm-8007",
        bind="10.0.0.7",
        served_name="chat",
        gpus=GpuSet((2, 3)),
    )
    there = running(NGINX, old.unit, old.unit_path, render(old), spec_hash(old), 8007, "2,3")
    place = place_of(found(), HOST, there, Asked())
    assert (place.port, place.bind, place.served_name) == (8007, "10.0.0.7", "chat")
    assert place.gpus == GpuSet((0, 1)), "the measured ones, where they are free"
    assert place.replaces == ("vllm-8007.service",)
    assert place_of(found(), HOST, there, Asked(port=8001)).replaces == ()


def test_gpus_are_those_of_the_replaced_service_where_others_have_the_measured_ones() -> None:
    there = NGINX.with_unit(unit(8002, "0")).with_unit(unit(8001, "2,3"))
    assert place_of(found(), HOST, there, Asked(port=8001)).gpus == GpuSet((2, 3))
    stranger = (gpu(0, GpuProcess(pid=7, name="python")), *(gpu(index) for index in (1, 2, 3)))
    held = replace(NGINX, gpus=stranger).with_unit(unit(8001, "2,3"))
    assert place_of(found(), HOST, held, Asked(port=8001)).gpus == GpuSet((2, 3))
    with pytest.raises(Occupied, match="GPU 0 belongs to vllm-8002"):
        target(there=NGINX.with_unit(unit(8002, "0")))
    with pytest.raises(UsageError, match="measured on 2 GPUs, --gpus names 1"):
        place_of(found(), HOST, NGINX, Asked(gpus=GpuSet((3,))))


def test_two_services_of_the_model_ask_for_a_port() -> None:
    there = NGINX
    for port, gpus in ((8001, (2,)), (8002, (3,))):
        spec = replace(target().units.members[0], port=port, name=f"vllm-{port}", gpus=GpuSet(gpus))
        there = running(there, spec.unit, spec.unit_path, render(spec), spec_hash(spec), port, str(spec.gpus))
    with pytest.raises(UsageError, match=r"2 services of .*vllm-8001.service, vllm-8002.service"):
        place_of(found(), HOST, there, Asked())


def test_the_first_free_port_is_taken_where_the_model_has_no_service() -> None:
    there = NGINX.with_unit(unit(8001, "3"))
    assert place_of(found(), HOST, there, Asked()).port == 8002
    narrow = replace(HOST, ports=(8001, 8001))
    with pytest.raises(NotPossible, match="1 more ports are needed, 0 of 8001–8001 are free"):
        place_of(found(), narrow, there, Asked())


def test_several_servers_get_ports_of_their_own_and_a_balancer_that_comes_back_at_boot() -> None:
    done = target(found(measured_trial(Config(tp=2, units=2))))
    assert done.place.member_ports == (8002, 8003)
    assert done.units.units == ("vllm-8001.service", "vllm-8002.service", "vllm-8003.service")
    assert [spec.bind for spec in done.units.members] == ["127.0.0.1"] * 2
    assert done.measured == done.becomes
    text = done.units.texts["/etc/systemd/system/vllm-8001.service"]
    assert "WantedBy=multi-user.target" in text
    assert "X-Fleetbench-Servers=8002,8003\n" in text
    assert "/run/fleetbench" not in text
    configuration = done.units.texts["/etc/fleetbench/vllm-8001.conf"]
    assert "max_fails=1" in configuration
    assert configuration.count("proxy_next_upstream error timeout;") == 1


def test_the_balancers_port_has_to_be_free_too() -> None:
    stranger = Listener(address="0.0.0.0", port=8001, pid=9, process="python", unit="foreign.service")
    there = replace(NGINX, listeners=(stranger,))
    assert target(found(measured_trial(Config(units=2))), there).place.port == 8002
    with pytest.raises(Occupied, match="port 8001 is in use"):
        target(found(measured_trial(Config(units=2))), there, asked=Asked(port=8001))


def test_one_server_replaces_several_and_removes_what_is_left() -> None:
    several = installed(target(found(measured_trial(Config(units=2)))))
    done = target(there=several)
    assert done.place.replaces == ("vllm-8001.service", "vllm-8002.service", "vllm-8003.service")
    intent = intent_of(done, several)
    said = [step.summary for step in intent.steps]
    assert "stop and disable vllm-8002.service" in said
    assert "delete /etc/fleetbench/vllm-8001.conf" in said
    assert set(intent.starts) == {"vllm-8001.service"}
    assert [spot.unit for spot in intent.spots][-1] == "vllm-8001.service", "what stands in front comes last"
    with pytest.raises(NotPossible, match="belongs to a server behind vllm-8001"):
        place_of(found(), HOST, several, Asked(port=8002))


def test_a_host_has_to_have_the_measured_venv() -> None:
    with pytest.raises(NotPossible, match=r"no venv /opt/vllm/venvs/vllm-0.19.1") as refused:
        target(there=replace(NGINX, venvs={}))
    assert refused.value.next_step == "invoke provision --hosts h100-01"
    newer = Build(name="new", version="0.20.0")
    host = replace(HOST, build=newer)
    with pytest.raises(NotPossible, match="no build of the inventory") as unknown:
        target(host=host, builds={})
    assert "hosts.toml" in unknown.value.next_step
    there = replace(NGINX, venvs={**NGINX.venvs, host.venv: Venv(path=host.venv, complete=True)})
    pinned = target(
        there=there.with_file(File(path=HOST.venv_link, kind="link", target="venvs/vllm-0.20.0")), host=host
    )
    assert pinned.units.members[0].venv == HOST.venv, "the link leads to another one"
    other = Venv(path=HOST.venv, packages={"vllm": "0.19.0"}, complete=True)
    with pytest.raises(NotPossible, match=r"holds vllm 0.19.0, vLLM 0.19.1 was measured"):
        target(there=replace(NGINX, venvs={HOST.venv: other}))


def test_another_kind_of_gpu_is_a_doubt_and_gets_its_own_architecture() -> None:
    other = tuple(replace(gpu(index), name="NVIDIA B200", compute_capability="10.0") for index in range(4))
    done = target(there=replace(NGINX, gpus=other))
    assert "NVIDIA B200, measured on NVIDIA H100 80GB HBM3" in done.doubts
    assert done.units.members[0].env["TORCH_CUDA_ARCH_LIST"] == "10.0"
    with pytest.raises(NotPossible, match="would not be the service") as refused:
        refuse_unequal(found(), done)
    assert "--anyway" in refused.value.next_step


def test_what_the_hosts_have_for_themselves_is_not_carried_over_and_the_models_wins() -> None:
    measuring = replace(HOST, env={"NIC": "eth0", "LOAD": "1", "GONE": "1"})
    model = replace(MODEL, env={"LOAD": "5"})
    one = found(measured_trial(model=model, host=measuring))
    same = target(one, host=measuring, measured_on=measuring)
    assert same.doubts == ()
    assert same.units.members[0].env["LOAD"] == "5"
    elsewhere = replace(HOST, name="h100-02", env={"NIC": "ens1", "LOAD": "9"})
    moved = target(one, host=elsewhere, measured_on=measuring)
    env = moved.units.members[0].env
    assert (env["NIC"], env["LOAD"], "GONE" in env) == ("ens1", "5", False)
    assert moved.doubts == (
        "GONE unset, measured with GONE=1",
        "NIC=ens1, measured with NIC=eth0",
    )


def test_what_changes_the_unit_beside_its_text_is_a_doubt() -> None:
    path = "/etc/fleetbench/vllm-8001.env"
    assert target(there=NGINX.with_file(file_of(path, "# nothing\n\n"))).doubts == ()
    assert target(there=NGINX.with_file(file_of(path, "A=1\n"))).doubts == (f"{path} changes the unit",)
    assert path in paths_of(target().place)
    drop_in = "/etc/systemd/system/vllm-8001.service.d/override.conf"
    there = NGINX.with_unit(Unit(name="vllm-8001.service", load="loaded", drop_ins=(drop_in,)))
    assert f"{drop_in} changes the unit" in target(there=there, asked=Asked(port=8001)).doubts


def test_a_drop_in_that_outlived_its_unit_is_a_doubt() -> None:
    left = (
        "/etc/systemd/system/vllm-8001.service.d/override.conf",
        "/run/systemd/system/vllm-.service.d/x.conf",
    )
    others = ("/etc/systemd/system/vllm-8002.service.d/override.conf", f"{left[0]}.orig")
    for path in left:
        assert target(there=NGINX.with_file(File(path=path))).doubts == (f"{path} changes the unit",)
    for path in others:
        assert target(there=NGINX.with_file(File(path=path))).doubts == (), path


def test_a_run_of_an_archive_is_a_doubt() -> None:
    row = measured_trial()
    added = replace(run(), origin="added 2026-12-01T10:00:00Z from archive \x1b[2Jx.tar.xz")
    one = candidate(summarise(added, [row], repeats(1, 1000.0, 1001.0, 1002.0)), 1)
    assert doubts(one) == ("it was not measured here: added 2026-12-01T10:00:00Z from archive [2Jx.tar.xz",)
    with pytest.raises(NotPossible, match="is not valid") as refused:
        refuse_doubtful(one)
    assert "--anyway" in refused.value.next_step


def test_a_trial_that_is_not_valid_is_refused_with_what_became_of_it() -> None:
    assert doubts(found()) == ()
    failed = found(measured_trial(state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY))
    with pytest.raises(NotPossible) as refused:
        refuse_doubtful(failed)
    assert refused.value.cause.startswith("it is failed: CUDA out of memory")
    row = measured_trial()
    suspect = measurement(1, 1, result(1000.0), Verdict.SUSPECT, "5 waves of 2 requests")
    one = candidate(summarise(run(), [row], [suspect]), 1)
    assert doubts(one) == ("it is suspect: 5 waves of 2 requests",)
    assert one.mark == f"{run().id}/1"
    assert doubts(candidate(summarise(run(), [row], []), 1)) == ("nothing of it was measured to the end",)


def test_a_trial_that_is_not_there_or_never_had_a_unit_is_named() -> None:
    report = summarise(run(), [measured_trial(unit_text="", state=TrialState.NOT_RUN)], [])
    with pytest.raises(UsageError, match="has no trial 7") as unknown:
        candidate(report, 7)
    assert unknown.value.cause == "its trials are 1 to 1"
    with pytest.raises(NotPossible, match="never had a unit: it is not run"):
        candidate(report, 1)


def test_a_unit_that_could_not_be_put_back_is_not_touched() -> None:
    path = "/etc/systemd/system/vllm-8001.service"
    there = NGINX.with_file(File(path=path, sha256="a" * 64, mode=0o644)).with_unit(unit(8001, "0,1"))
    with pytest.raises(NotPossible, match="cannot be read as text"):
        intent_of(target(there=there, asked=Asked(port=8001)), there)
