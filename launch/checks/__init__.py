"""All checks of the doctor, in the order in which a person would ask. Pure: facts in, findings out."""

from __future__ import annotations

from launch.checks import cards as checks_cards
from launch.checks import driver as checks_driver
from launch.checks import host as checks_host
from launch.checks import network as checks_network
from launch.checks.facts import Facts
from launch.checks.findings import FAIL, Finding, NotChecked

CHECKS = (*checks_driver.CHECKS, *checks_cards.CHECKS, *checks_host.CHECKS, *checks_network.CHECKS)


def run_checks(facts: Facts) -> tuple[list[Finding], list[NotChecked]]:
    """Every finding, and every check that had nothing to look at with the reason."""
    results = [result for check in CHECKS for result in check(facts)]
    findings = [result for result in results if isinstance(result, Finding)]
    return findings, [result for result in results if isinstance(result, NotChecked)]


def breaks(findings: list[Finding]) -> bool:
    """Whether something will break the run."""
    return any(finding.level == FAIL for finding in findings)
