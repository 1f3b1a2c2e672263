#!/usr/bin/env python3
"""Programs that know a zone by its OpenAPI document only.

    openapi_clients.py create FILE      makes a database with the tables of openapi.sql
    openapi_clients.py validate SERVER  requires that the document is valid OpenAPI 3.1
    openapi_clients.py explore SERVER   sends requests that schemathesis makes from the document, from a fixed seed

schemathesis requires that no request fails in the server, that every status, header and body is one that the document
describes, and that the server refuses what the document does not allow.
"""

import json
import pathlib
import re
import sqlite3
import subprocess
import sys
import urllib.request

from driver import require, run

HERE = pathlib.Path(__file__).parent
# The most requests that schemathesis makes of one operation, in each of its phases.
EXAMPLES = 5
# The fewest requests of a run that explores every operation.
CASES_MIN = 400


def create(path):
    database = sqlite3.connect(path)
    database.executescript((HERE / "openapi.sql").read_text())
    database.close()


def validate(server):
    from openapi_spec_validator import validate as validate_document

    with urllib.request.urlopen(f"{server}/openapi.json") as answer:
        document = json.load(answer)
    validate_document(document)
    print(f"{len(document['paths'])} paths are valid OpenAPI {document['openapi']}")


def explore(server):
    command = [
        str(pathlib.Path(sys.executable).parent / "schemathesis"),
        "--config-file", str(HERE / "schemathesis.toml"), "run", f"{server}/openapi.json", "--url", server,
        "--phases", "examples,fuzzing,stateful", "--max-examples", str(EXAMPLES), "--continue-on-failure",
        "--request-timeout", "30", "--no-color",
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    report = result.stdout + result.stderr
    cases = re.search(r"(\d+) generated", report)
    if result.returncode != 0:
        print(report[report.find("= FAILURES ="):])
    require(result.returncode == 0, "schemathesis found answers that differ from the document")
    require(cases is not None and int(cases[1]) >= CASES_MIN, f"schemathesis made fewer than {CASES_MIN} requests")
    print(f"{cases[1]} requests got answers as the document says")


if __name__ == "__main__":
    run(sys.argv, create=create, validate=validate, explore=explore)
