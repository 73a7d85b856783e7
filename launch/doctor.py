"""The `doctor` command: what this machine is, and what would go wrong on it. Seconds, no root, nothing left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console
from rich.text import Text

from benchmarks.device.topology import to_dict
from benchmarks.meters.environment import processor_name
from configs.errors import ConfigError, choose
from configs.schema import Config
from launch.checks import breaks, run_checks
from launch.checks.facts import Facts, GpuFacts, Plan
from launch.checks.findings import FAIL, LEVELS, WARN, Finding, NotChecked
from launch.checks.probe_cards import ask_cards, ask_torch
from launch.checks.probe_host import ask_host, ask_network, bounded
from launch.render.text import print_hanging

NVML_PATIENCE_S = 20.0  # a driver without persistence loads anew for each card
TOKEN_BYTES = 8  # a token id as a loader's worker hands it over
FORMATS = ("text", "json")
MARKS = {"ok": ("ok", ""), WARN: ("warn", "yellow"), FAIL: ("FAIL", "bold red")}


def doctor_command(configs: list[Config], console: Console) -> int:
    """Examine this machine for the run with the most ranks on a node; returns 1 if something would break it, else 0.

    The report goes to standard output, as text or JSON. Raises ConfigError for an unknown format or rendezvous.
    """
    config = max(configs, key=lambda each: each.cards / max(each.cluster.nodes, 1))
    choose("format", config.format, FORMATS)
    code, report = examine(config)
    if config.format == "json":
        print(json.dumps(report, ensure_ascii=False, allow_nan=False, indent=1))
    else:
        render(report, Console(highlight=False, soft_wrap=False))
    return code


def examine(config: Config, hosts: Sequence[str] = ()) -> tuple[int, dict[str, Any]]:
    """(exit code, report as JSON data) for the run that `config` plans. hosts: other nodes to reach, beside node 0."""
    facts = gather(plan_of(config, hosts), config)
    findings, unchecked = run_checks(facts)
    return int(breaks(findings)), report_of(facts, findings, unchecked)


def plan_of(config: Config, hosts: Sequence[str] = ()) -> Plan:
    """What the run asks of this node. Raises ConfigError where cards do not share out over the nodes."""
    cluster = config.cluster
    if cluster.nodes < 1 or config.cards % cluster.nodes:
        raise ConfigError("cluster.nodes", f"{config.cards} cards do not share out over {cluster.nodes} nodes")
    micro_batch = config.micro_batch if isinstance(config.micro_batch, int) else 1
    return Plan(
        machine=config.machine,
        cards=config.cards,
        nodes=cluster.nodes,
        node_rank=cluster.node_rank,
        rendezvous=cluster.rendezvous,
        hosts=tuple(hosts),
        precision=config.recipe.precision,
        threads_per_rank=cluster.threads_per_rank,
        model_path=config.model.path,
        loader_workers=config.benchmark.storage.workers if config.benchmark.name == "storage" else 0,
        loader_batch_gib=micro_batch * config.seq_len * TOKEN_BYTES / 2**30,
        env=dict(cluster.env),
    )


def gather(plan: Plan, config: Config) -> Facts:
    """Ask this machine everything that the checks look at; whatever does not answer in time is a fact as well."""
    variables = dict(os.environ)
    for_ranks = {**variables, **plan.env}
    gpu = bounded(lambda: ask_cards(for_ranks), NVML_PATIENCE_S)
    if gpu is None:
        gpu = GpuFacts(missing=f"the driver did not answer in {NVML_PATIENCE_S:.0f} s")
    facts = Facts(plan=plan, gpu=gpu, variables=variables)
    return replace(
        facts,
        torch=ask_torch(gpu if plan.on_cards else GpuFacts(), for_ranks),
        host=ask_host(plan, config.results_dir, config.model),
        network=ask_network(plan),
    )


def report_of(facts: Facts, findings: Sequence[Finding], unchecked: Sequence[NotChecked]) -> dict[str, Any]:
    """The report as JSON data: the machine, the findings in their order, what could not be looked at, and a count."""
    cards = [
        {"index": card.index, "uuid": card.uuid, "name": card.name, "memory_gib": card.memory_gib}
        for card in facts.gpu.visible
    ]
    topology = facts.gpu.topology
    return {
        "machine": {
            "host": facts.network.host,
            "processor": processor_name(),
            "cores": facts.host.cores,
            "driver": facts.gpu.driver,
            "cards": cards,
            "topology": to_dict(topology, facts.plan.nodes) if topology is not None and topology.cards else None,
        },
        "plan": {
            "machine": facts.plan.machine.name,
            "cards": facts.plan.cards,
            "nodes": facts.plan.nodes,
            "ranks_per_node": facts.plan.ranks,
        },
        "findings": [asdict(finding) for finding in findings],
        "not_checked": [asdict(each) for each in unchecked],
        "summary": {level: sum(finding.level == level for finding in findings) for level in LEVELS},
    }


def render(report: dict[str, Any], console: Console) -> None:
    """Print a report: the machine, then what breaks, what slows, what is well, what could not be looked at."""
    machine, plan = report["machine"], report["plan"]
    names = [card["name"] for card in machine["cards"]]
    cards = " + ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "no cards"
    links = f", {machine['topology']['verdict']}" if machine["topology"] else ""
    _line(console, f"{machine['host']}: {machine['processor']}, {machine['cores']:g} cores; {cards}{links}")
    ranks = f"{plan['cards']} ranks over {plan['nodes']} nodes" if plan["nodes"] > 1 else f"{plan['cards']} ranks"
    _line(console, f"for machine={plan['machine']}, {ranks}", "dim")
    order = sorted(report["findings"], key=lambda finding: -LEVELS.index(finding["level"]))
    for finding in order:
        mark, style = MARKS[finding["level"]]
        print_hanging(console, f"{mark:>4}  ", f"{finding['check']}: {finding['what']}", style)
        for word in ("why", "do"):
            if finding[word]:
                print_hanging(console, f"      {word:>3}  ", finding[word], "")
    for each in report["not_checked"]:
        print_hanging(console, "   ?  ", f"{each['check']}: not known: {each['why']}", "dim")
    summary = report["summary"]
    _line(console, f"{summary[FAIL]} will break the run, {summary[WARN]} will cost, {summary['ok']} are well", "bold")


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style))
