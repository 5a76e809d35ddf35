"""What the planner says of a sweep, from the model's own config.json on the host."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from fleetbench.errors import FleetbenchError
from fleetbench.facts.values import HostFacts
from fleetbench.model import Config, Host, Model, Sweep
from fleetbench.plan.architecture import read_architecture
from fleetbench.plan.planner import Candidate, plan_sweep
from fleetbench.plan.roofline import Guess, Machine, Shape
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

# A model is a directory on the host, or a repository in the service user's Hugging Face cache.
# 4 MB are more than any config.json or weight index has.
_READ = r"""
export LC_ALL=C.UTF-8
prefix=$1 repo=$2
case $repo in
  /*) directory=$repo ;;
  *)
    snapshots=$prefix/models/huggingface/hub/models--${repo//\//--}/snapshots
    directory=$(ls -td "$snapshots"/*/ 2>/dev/null | head -n 1) ;;
esac
[ -n "$directory" ] && [ -f "$directory/config.json" ] || exit 1
head -c 4000000 "$directory/config.json"
printf '\n\036\n'
head -c 4000000 "$directory/model.safetensors.index.json" 2>/dev/null
exit 0
"""


def guess_on(session: DurableSession, host: Host, facts: HostFacts, model: Model) -> Guess:
    """Return what the durations of a model's trials on a host are guessed from."""
    answer = session.read(bash(_READ, host.prefix, model.repo), timeout_s=30)
    config, _, index = answer.stdout.partition("\n\x1e\n")
    architecture = None
    if answer.ok:
        with contextlib.suppress(FleetbenchError):  # the verdicts say what is wrong with it
            architecture = read_architecture(config, index)
    return Guess(shape=Shape.of(architecture), machine=Machine.of(host, facts))


def verdicts(
    session: DurableSession, host: Host, facts: HostFacts, sweep: Sweep, model: Model
) -> tuple[Mapping[Config, Candidate], str]:
    """Return the planner's candidate of each configuration, and a sentence when it could not judge."""
    answer = session.read(bash(_READ, host.prefix, model.repo), timeout_s=30)
    if not answer.ok:
        return {}, f"{model.repo} is not on the host yet, so its configurations are not judged"
    config, _, index = answer.stdout.partition("\n\x1e\n")
    try:
        plan = plan_sweep(sweep, model, read_architecture(config, index), facts, host)
    except FleetbenchError as exc:
        return {}, f"not judged: {exc.what}"
    return {candidate.config: candidate for candidate in plan.candidates}, ""


def cells(candidate: Candidate | None) -> tuple[object, ...]:
    """Return a candidate as cells: verdict, GiB of weights for each GPU, KV tokens, the first reason."""
    if candidate is None:
        return ("not judged", None, None, "")
    estimate = candidate.estimate
    return (
        candidate.verdict.value,
        round(estimate.weights_gib, 1) if estimate else None,
        estimate.kv_tokens * candidate.engines if estimate else None,
        str(candidate.reasons[0]) if candidate.reasons else "",
    )
