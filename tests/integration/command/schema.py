# SPDX-License-Identifier: Apache-2.0
"""Whether JSON keeps to schemas/, judged by an independent validator.

Owns: finding the validator and the schema. Never: knows what a document means.
"""
import json
import os

from place import SOURCE
from tap import Skip


def keeps_to(name, document):
    try:
        import jsonschema
    except ImportError as missing:
        raise Skip("no python3-jsonschema") from missing
    with open(os.path.join(SOURCE, "schemas", name), encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)


def refuses(name, document):
    import jsonschema
    try:
        keeps_to(name, document)
    except jsonschema.ValidationError:
        return
    raise AssertionError(f"{name} accepts {document!r}, expected a refusal")
