# SPDX-License-Identifier: MIT
"""schema.py DEFINITION=FILE...: each line of each FILE is a document as conf/json/schema.json defines it.

It has no key that the definition does not name, and without any one of the keys that it must have it is refused.
"""

import json
import sys

import jsonschema

with open("conf/json/schema.json", encoding="utf-8") as file:
    SCHEMA = json.load(file)


def parts(schema):
    """Yields the schema and all that it is put together from."""
    yield schema
    if "$ref" in schema:
        yield from parts(SCHEMA["definitions"][schema["$ref"].split("/")[-1]])
    for other in schema.get("allOf", []) + schema.get("anyOf", []):
        yield from parts(other)


def unnamed(schemas, value, path):
    """Yields the paths of keys that no schema names."""
    all_parts = [part for schema in schemas for part in parts(schema)]
    if isinstance(value, list):
        items = [part["items"] for part in all_parts if "items" in part]
        for number, item in enumerate(value):
            yield from unnamed(items, item, f"{path}[{number}]")
    if isinstance(value, dict) and not any("additionalProperties" in part for part in all_parts):
        for key, item in value.items():
            of_key = [part["properties"][key] for part in all_parts if key in part.get("properties", {})]
            if not of_key:
                yield f"{path}.{key}"
            yield from unnamed(of_key, item, f"{path}.{key}")


def faults(name, file):
    """Yields how the documents of a file are not as the definition of that name has them."""
    definition = {"$ref": f"#/definitions/{name}"}
    judge = jsonschema.Draft7Validator({**definition, "definitions": SCHEMA["definitions"]})
    whole = jsonschema.Draft7Validator(SCHEMA)
    with open(file, encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    for document in documents:
        yield from (f"{'.'.join(map(str, error.path))}: {error.message}" for error in judge.iter_errors(document))
        yield from (f"{key} is not in the schema" for key in unnamed([definition], document, ""))
        if not whole.is_valid(document):
            yield "the schema as a whole refuses it"
    if not documents:
        yield "no document"
        return
    last = documents[-1]
    for key in [key for part in parts(definition) for key in part.get("required", [])]:
        if key in last and judge.is_valid({k: v for k, v in last.items() if k != key}):
            yield f"valid without {key}"
    if judge.is_valid({**last, "schema": last.get("schema", 0) + 1}):
        yield "valid with another schema number"


if __name__ == "__main__":
    wrong = [f"{each}: {fault}" for each in sys.argv[1:] for fault in faults(*each.split("=", 1))]
    print("\n".join(wrong))
    sys.exit(bool(wrong))
