"""The report as JUnit XML: a suite for each group, a case for each check."""

from __future__ import annotations

from itertools import groupby
from xml.etree import ElementTree

from raypd.conformance.outcome import Verdict
from raypd.conformance.report import Report, clean, told


def document(report: Report) -> str:
    """A known gap is a case that was skipped, with its reference: it fails no pipeline."""
    root = ElementTree.Element("testsuites", name="raypd conformance", time=f"{report.seconds:.3f}")
    for group, members in groupby(report.results, key=lambda result: result.group):
        results = list(members)
        failures = sum(result.verdict == Verdict.FAIL for result in results)
        errors = sum(result.verdict == Verdict.NOT_RUN for result in results)
        passed = sum(result.verdict == Verdict.PASS for result in results)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=group,
            tests=str(len(results)),
            failures=str(failures),
            errors=str(errors),
            skipped=str(len(results) - failures - errors - passed),
            time=f"{sum(result.seconds for result in results):.3f}",
        )
        for result in results:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"conformance.{group}",
                name=result.name,
                time=f"{result.seconds:.3f}",
            )
            words = told(result)
            if result.verdict == Verdict.FAIL:
                failure = ElementTree.SubElement(case, "failure", message=words)
                failure.text = clean(
                    "\n\n".join(f"{w.words}\nHTTP {w.status}\n{w.body}" for w in result.wrongs)
                )
            elif result.verdict == Verdict.NOT_RUN:
                ElementTree.SubElement(case, "error", message=words)
            elif result.verdict != Verdict.PASS:
                ElementTree.SubElement(case, "skipped", message=f"{result.verdict}: {words}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
