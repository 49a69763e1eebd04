"""The scorecard as JUnit XML, as build servers show it: a test case a cell."""

from __future__ import annotations

from xml.etree import ElementTree

from mlflow_resilience.drill.results import Result
from mlflow_resilience.drill.scorecard import Scorecard
from mlflow_resilience.drill.verdict import BAD
from mlflow_resilience.summary import clean


def junit(card: Scorecard) -> str:
    """An XML document. A silent divergence is a failure, what did not end as it should an error."""
    failures = card.counts["SILENT_DIVERGENCE"]
    errors = card.counts["HARD_FAIL"]
    attributes = {
        "name": "mlflow-resilience drill",
        "tests": str(len(card.results)),
        "failures": str(failures),
        "errors": str(errors),
        "time": f"{sum(each.seconds for each in card.results):.1f}",
    }
    suites = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(suites, "testsuite", {**attributes, "name": clean(card.recipe)})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in card.tags().items():
        ElementTree.SubElement(properties, "property", {"name": name, "value": clean(value)})
    for result in card.results:
        suite.append(_case(result, card.recipe))
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(result: Result, recipe: str) -> ElementTree.Element:
    attributes = {"classname": clean(recipe), "name": result.cell.name, "time": f"{result.seconds:.1f}"}
    case = ElementTree.Element("testcase", attributes)
    word, text = result.verdict.word, clean(result.verdict.text)
    if word in BAD:
        kind = "error" if word == "HARD_FAIL" else "failure"
        found = ElementTree.SubElement(case, kind, {"type": word, "message": text})
        found.text = f"folder: {result.kept}" if result.kept else text
    else:
        ElementTree.SubElement(case, "system-out").text = f"{word}: {text}"
    return case
