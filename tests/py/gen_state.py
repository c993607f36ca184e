"""The document that examples/big-state makes, as Terraform would post it, at any size.

``python tests/py/gen_state.py SIZE`` writes it to standard output; 50000 gives 100,010 instances.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

LINEAGE = "6f3c1a52-8d0e-4b7a-9c45-2e1f7b90d364"
_REGISTRY = 'provider["registry.terraform.io/hashicorp/{}"]'


class BigState:
    """One state whose instances can be changed one by one and rendered again."""

    def __init__(self, size: int, *, serial: int = 1, lineage: str = LINEAGE) -> None:
        self.size = size
        self.serial = serial
        self.lineage = lineage
        self._herds = [Herd("primary_herd", size), Herd("shadow_herd", 1)]

    @property
    def instances(self) -> int:
        """How many resource instances the document holds."""
        return 2 * self.size + 10

    @property
    def primary(self) -> Herd:
        """The herd that has the size."""
        return self._herds[0]

    def change(self, salt: object, *, tags: Iterable[int] = (), labels: Iterable[int] = ()) -> None:
        """Give these instances of the primary herd new values, made from the salt."""
        herd = self.primary
        for i in tags:
            herd.tags[i] = herd.tag(i, str(salt))
        for i in labels:
            herd.labels[i] = herd.label(i, str(salt))

    def render(self) -> bytes:
        """The document, two spaces deep and with a line break at its end, as Terraform has it."""
        blocks = [_block(**root) for root in _roots()]
        for herd in self._herds:
            blocks += herd.blocks()
        head = _indented(
            {
                "version": 4,
                "terraform_version": "1.11.4",
                "serial": self.serial,
                "lineage": self.lineage,
                "outputs": {"primary_size": {"value": self.size, "type": "number"}},
            }
        ).removesuffix("\n}")
        body = ",\n".join(blocks)
        return f'{head},\n  "resources": [\n{body}\n  ],\n  "check_results": null\n}}\n'.encode()


class Herd:
    """A leader and ``size`` pairs of a tag and a label that depend on it."""

    def __init__(self, name: str, size: int) -> None:
        self.module = f"module.{name}"
        self._upstream = ["random_pet.deployment_name"]
        if name != "primary_herd":
            self._upstream = ["module.primary_herd.random_id.leader", *self._upstream]
        depends = sorted([*self._upstream, f"{self.module}.random_id.leader"])
        self._depends = ",\n".join(f'            "{name}"' for name in depends)
        self._keeper = _hex(self.module, 32)
        self.tags = [self.tag(i) for i in range(size)]
        self.labels = [self.label(i) for i in range(size)]

    def tag(self, i: int, salt: str = "") -> str:
        """A random_id instance."""
        return f"""\
        {{
          "index_key": {i},
          "schema_version": 0,
          "attributes": {{
            {_random_id_text(f"{self.module} tag {i} {salt}", 8)},
            "keepers": {{
              "leader": "{self._keeper}"
            }},
            "prefix": null
          }},
          "sensitive_attributes": [],
          "identity_schema_version": 0,
          "dependencies": [
{self._depends}
          ]
        }}"""

    def label(self, i: int, salt: str = "") -> str:
        """A random_string instance."""
        value = _hex(f"{self.module} label {i} {salt}", 32)
        return f"""\
        {{
          "index_key": {i},
          "schema_version": 2,
          "attributes": {{
            "id": "{value}",
            "keepers": {{
              "leader": "{self._keeper}"
            }},
            "length": 32,
            "lower": true,
            "min_lower": 0,
            "min_numeric": 0,
            "min_special": 0,
            "min_upper": 0,
            "number": true,
            "numeric": true,
            "override_special": null,
            "result": "{value}",
            "special": false,
            "upper": false
          }},
          "sensitive_attributes": [],
          "identity_schema_version": 0,
          "dependencies": [
{self._depends}
          ]
        }}"""

    def blocks(self) -> list[str]:
        """The three blocks as text."""
        leader = _random_id(self.module, 16) | {"keepers": {"prefix": "herd"}, "prefix": None}
        return [
            _block("random_id", "leader", leader, self._upstream, module=self.module),
            _block("random_id", "tag", self.tags, module=self.module),
            _block("random_string", "label", self.labels, module=self.module),
        ]


def _roots() -> list[dict[str, Any]]:
    pet, identity = "random_pet.deployment_name", "random_id.deployment_id"
    leaders = [f"module.{name}_herd.random_id.leader" for name in ("primary", "shadow")]
    sleep = {"create_duration": "30s", "destroy_duration": None, "id": "2026-11-30T03:24:49Z"}
    sleep["triggers"] = {"version": "v1"}  # type: ignore[assignment]
    return [
        {
            "type_": "null_resource",
            "name": "deployment_marker",
            "content": {"id": "4839201", "triggers": {"deployment": "herd"}},
            "depends": [identity, pet],
        },
        {
            "type_": "null_resource",
            "name": "summary",
            "content": {"id": "7710393", "triggers": {"leaders": "2"}},
            "depends": [*leaders, pet],
        },
        {
            "type_": "random_id",
            "name": "deployment_id",
            "content": _random_id("deployment", 16) | {"keepers": None, "prefix": None},
            "depends": [pet],
        },
        {
            "type_": "random_pet",
            "name": "deployment_name",
            "content": {"id": "calmly-herd-ox", "keepers": None, "length": 3, "prefix": None}
            | {"separator": "-"},
        },
        {"type_": "time_sleep", "name": "slow_a", "content": sleep},
        {"type_": "time_sleep", "name": "slow_b", "content": sleep},
    ]


def _block(
    type_: str,
    name: str,
    content: dict[str, Any] | list[str],
    depends: list[str] | None = None,
    module: str | None = None,
) -> str:
    """A resource block, from the attributes of its only instance or from instances as text."""
    if isinstance(content, dict):
        instance: dict[str, Any] = {
            "schema_version": 0,
            "attributes": content,
            "sensitive_attributes": [],
            "identity_schema_version": 0,
        }
        if depends:
            instance["dependencies"] = depends
        content = [textwrap.indent(_indented(instance), " " * 8)]
    provider = _REGISTRY.format(type_.split("_")[0])
    head = {"mode": "managed", "type": type_, "name": name, "provider": provider}
    if module:
        head = {"module": module} | head
    opening = textwrap.indent(_indented(head).removesuffix("\n}"), " " * 4)
    instances = ",\n".join(content)
    return f'{opening},\n      "instances": [\n{instances}\n      ]\n    }}'


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2)


def _hex(seed: str, length: int) -> str:
    return hashlib.sha256(seed.encode()).hexdigest()[:length]


def _random_id(seed: str, length: int) -> dict[str, Any]:
    value = hashlib.sha256(seed.encode()).digest()[:length]
    url = base64.urlsafe_b64encode(value).decode().rstrip("=")
    return {
        "b64_std": base64.b64encode(value).decode(),
        "b64_url": url,
        "byte_length": length,
        "dec": str(int.from_bytes(value, "big")),
        "hex": value.hex(),
        "id": url,
    }


def _random_id_text(seed: str, length: int) -> str:
    return (",\n" + " " * 12).join(
        f'"{key}": {value}' if isinstance(value, int) else f'"{key}": "{value}"'
        for key, value in _random_id(seed, length).items()
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(BigState(int(sys.argv[1])).render())
