"""What is borrowed is given back exactly as it was taken, and what could not be is not borrowed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from invoked import until
from standin_host import Fleet, fleet_of
from weather import HOST, SWEEP, UNIT, Voyage, check_weathered, lease_of, pid_of, state_of

from fleetbench.results.rows import RunState

# Beside production: one that failed, one that is masked, one that is stopped, and a server that fleetbench
# did not install, an instance of a template that has a second name.
OTHERS = r"""
cd /etc/systemd/system
failing='s/8001/8002/g; s|^ExecStart=.*|ExecStart=/bin/false|; s/^Restart=.*/Restart=no/'
sed "$failing" vllm-8001.service > vllm-8002.service
ln -s /dev/null vllm-8003.service
sed 's/8001/8004/g' vllm-8001.service > vllm-8004.service
cat > vllm-chat@.service <<EOF
[Service]
User=vllm
Environment=STANDIN_LOAD_S=0.1
ExecStartPre=+/bin/sh -c 'mkdir -p /run/fake-gpu-apps; rm -f /run/fake-gpu-apps/*'
ExecStart=/opt/vllm/venv-vllm/bin/vllm serve standin/chat --port %i
ExecStartPost=+/bin/sh -c 'echo "1 9000 vllm" > /run/fake-gpu-apps/\$MAINPID'
EOF
ln -s vllm-chat@.service vllm-talk@.service
systemctl daemon-reload
systemctl start vllm-8002 vllm-chat@8005
exit 0
"""
OTHERS_GO = r"""
systemctl stop 'vllm-chat@*' vllm-8004
cd /etc/systemd/system
rm -f vllm-8002.service vllm-8003.service vllm-8004.service vllm-chat@.service vllm-talk@.service
systemctl daemon-reload
systemctl reset-failed
rm -rf /run/fake-gpu-apps
exit 0
"""
STATES = {
    "vllm-8001": "loaded active disabled",
    "vllm-8002": "loaded failed disabled",
    "vllm-8003": "masked inactive masked",
    "vllm-8004": "loaded inactive disabled",
    "vllm-chat@8005": "loaded active static",
}
# Two more services on production's GPUs, one of them in a crash loop; and what a colleague does meanwhile.
TWINS = r"""
cd /etc/systemd/system
for port in 8003 8004; do sed "s/8001/$port/g" vllm-8001.service > vllm-$port.service; done
sed -i 's|^ExecStart=.*|ExecStart=/bin/false|; s/^RestartSec=.*/RestartSec=60/' vllm-8004.service
systemctl daemon-reload
systemctl start vllm-8003 vllm-8004
exit 0
"""
MEDDLING = r"""
cd /etc/systemd/system
sed -i 's/FLEETBENCH_SPEC=[0-9a-f]*/FLEETBENCH_SPEC=changed/' vllm-8001.service
rm -f vllm-8003.service
systemctl daemon-reload
"""
TWINS_GO = r"""
systemctl stop vllm-8003 vllm-8004
rm -f /etc/systemd/system/vllm-8003.service /etc/systemd/system/vllm-8004.service
systemctl daemon-reload
systemctl reset-failed
exit 0
"""


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One host with the stand-in, for this file."""
    with fleet_of(1, tmp_path_factory.mktemp("fleet"), "tw") as fleet:
        yield fleet


@pytest.fixture
def served(harbour: Fleet) -> Iterator[Fleet]:
    """Production on two of the host's four GPUs."""
    harbour.clean()
    harbour.deploy("other", gpus="0,1")
    harbour.clean(keep_services=True)
    yield harbour
    harbour.on(HOST, OTHERS_GO)
    harbour.on(HOST, TWINS_GO)


def test_units_that_were_failed_disabled_masked_or_not_ours_are_so_afterwards(served: Fleet) -> None:
    served.on(HOST, "systemctl disable vllm-8001")
    served.on(HOST, OTHERS)
    until(lambda: served.serves(HOST, 8005))
    before = state_of(served)
    voyage = Voyage.begin(served)
    done = voyage.ended()
    assert done.status == 0, done.err
    for name, states in STATES.items():
        asked = f"systemctl show {name} -P LoadState -P ActiveState -P UnitFileState"
        assert sorted(served.on(HOST, asked).split()) == sorted(states.split()), name
    check_weathered(served, before)
    assert served.serves(HOST, 8005)
    with served.store() as store:
        loans = {loan.unit: loan.proof for loan in store.loans(voyage.run)}
    assert set(loans) == {UNIT, "vllm-chat@8005.service"}
    assert all(proof.startswith("completion after") for proof in loans.values())
    steps = [json.loads(line) for line in (served.runs / "audit.jsonl").read_text("utf-8").splitlines()]
    assert {step["plan"] for step in steps} == {voyage.run}
    said = [step["step"] for step in steps if step["status"] == "ok"]
    assert said.count(f"stop {UNIT}") == said.count(f"start {UNIT}") == 1
    assert said.count("start vllm-sweep-8101.service") == 2


def test_what_somebody_changes_while_it_is_on_loan_is_named_and_not_overwritten(served: Fleet) -> None:
    served.on(HOST, TWINS)
    until(lambda: served.serves(HOST, 8003))
    voyage = Voyage.begin(served)
    voyage.wait_for("repeat 1: started")
    served.on(HOST, MEDDLING)
    done = voyage.ended()
    assert done.status == 0, done.err
    notes = (
        "vllm-8001.service was changed while it was on loan: its text is another one",
        "vllm-8003.service was removed while it was on loan; it is left so",
        "vllm-8004.service was activating when it was borrowed, was started, and is not ready",
    )
    with served.store() as store:
        run = store.run("latest")
        assert all(loan.returned_at for loan in store.loans(run.id))
    assert run.state is RunState.DONE
    for note in notes:
        assert note in run.note, run.note
        assert note in done.err, done.err
    assert served.serves(HOST)
    assert "FLEETBENCH_SPEC=changed" in served.on(HOST, "systemctl show vllm-8001 -P Environment")
    assert served.on(HOST, "ls /etc/systemd/system/vllm-8003.service") == ""
    assert (served.left(HOST), lease_of(served)) == ("", "")


def test_a_unit_that_could_not_be_given_back_as_it_is_is_not_borrowed(served: Fleet) -> None:
    pid = pid_of(served)
    served.on(HOST, "echo '# edited' >> /etc/systemd/system/vllm-8001.service")
    refused = served.invoke(*SWEEP)
    assert refused.status == 1
    assert "vllm-8001.service cannot be borrowed" in refused.err
    assert f"invoke restart --hosts {HOST} --port 8001" in refused.err
    served.on(HOST, "cd /etc/systemd/system; ln -sf /dev/null vllm-8001.service; systemctl daemon-reload")
    checked = served.invoke(*SWEEP, "--check")
    assert "would be refused: vllm-8001.service cannot be borrowed" in checked.err
    assert "it runs, but is masked" in checked.err
    assert pid_of(served) == pid
    assert lease_of(served) == ""
