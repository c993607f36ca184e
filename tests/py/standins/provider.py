"""The resources of examples/big-state, served by the PyPI package ``tf``.

Run as ``provider.py random|null|time|file``. Attributes, schema versions and replacement follow the
real providers. STANDIN_SLEEP_FACTOR shortens every sleep. Objects with an id in STANDIN_GONE, which
commas separate, are not there any more. ``file`` is of our own: its resources are files, so that
they can drift.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import string
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tf.iface import Provider, Resource
from tf.runner import run_provider
from tf.schema import Attribute, Schema
from tf.types import Bool, Map, Number, String, Unknown

WORDS = (
    "able",
    "brave",
    "calm",
    "deep",
    "eager",
    "fair",
    "glad",
    "happy",
    "keen",
    "lively",
    "merry",
)
PETS = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibex", "jay", "koi", "lynx", "owl")


def computed(name: str, kind: Any) -> Attribute:
    """Only the provider sets it."""
    return Attribute(name, kind, computed=True)


def given(name: str, kind: Any, *, required: bool = False) -> Attribute:
    """The user sets it, and another value replaces the resource."""
    return Attribute(name, kind, required=required, optional=not required, requires_replace=True)


def defaulted(name: str, kind: Any, default: Any) -> Attribute:
    """The user may set it."""
    return Attribute(
        name, kind, optional=True, computed=True, requires_replace=True, default=default
    )


class Standin(Resource):
    """A resource that exists nowhere but in the state."""

    name: str
    version = 0
    attributes: list[Attribute]

    def __init__(self, provider: Provider) -> None:
        pass

    @classmethod
    def get_name(cls) -> str:
        return cls.name

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(version=cls.version, attributes=cls.attributes)

    def create(self, ctx: Any, planned: dict) -> dict:
        return {**planned, **self.values(planned)}

    def values(self, planned: dict) -> dict:
        """Return the computed attributes."""
        return {"id": str(secrets.randbits(63))}

    def read(self, ctx: Any, current: dict) -> dict | None:
        return None if current["id"] in os.environ.get("STANDIN_GONE", "").split(",") else current

    def update(self, ctx: Any, current: dict, planned: dict) -> dict:
        return planned

    def delete(self, ctx: Any, current: dict) -> None:
        return None


class RandomPet(Standin):
    name = "pet"
    attributes = [
        computed("id", String()),
        given("keepers", Map(String())),
        defaulted("length", Number(), 2),
        given("prefix", String()),
        defaulted("separator", String(), "-"),
    ]

    def values(self, planned: dict) -> dict:
        words = [secrets.choice(WORDS) for _ in range(int(planned["length"]) - 1)]
        words.append(secrets.choice(PETS))
        if planned["prefix"]:
            words.insert(0, planned["prefix"])
        return {"id": planned["separator"].join(words)}


class RandomId(Standin):
    name = "id"
    attributes = [
        computed("b64_std", String()),
        computed("b64_url", String()),
        given("byte_length", Number(), required=True),
        computed("dec", String()),
        computed("hex", String()),
        computed("id", String()),
        given("keepers", Map(String())),
        given("prefix", String()),
    ]

    def values(self, planned: dict) -> dict:
        raw = secrets.token_bytes(int(planned["byte_length"]))
        prefix = planned["prefix"] or ""
        url = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        return {
            "b64_std": prefix + base64.b64encode(raw).decode(),
            "b64_url": prefix + url,
            "dec": prefix + str(int.from_bytes(raw, "big")),
            "hex": prefix + raw.hex(),
            "id": url,
        }


class RandomString(Standin):
    name = "string"
    version = 2
    attributes = [
        computed("id", String()),
        given("keepers", Map(String())),
        given("length", Number(), required=True),
        *(defaulted(name, Bool(), True) for name in ("lower", "number", "numeric", "special")),
        *(defaulted(f"min_{k}", Number(), 0) for k in ("lower", "numeric", "special", "upper")),
        given("override_special", String()),
        computed("result", String()),
        defaulted("upper", Bool(), True),
    ]

    def values(self, planned: dict) -> dict:
        letters = "".join(
            chars
            for name, chars in (
                ("lower", string.ascii_lowercase),
                ("upper", string.ascii_uppercase),
                ("numeric", string.digits),
                ("special", planned["override_special"] or "!@#$%&*()-_=+[]{}<>:?"),
            )
            if planned[name]
        )
        result = "".join(secrets.choice(letters) for _ in range(int(planned["length"])))
        return {"id": result, "result": result}


class NullResource(Standin):
    name = "resource"
    attributes = [computed("id", String()), given("triggers", Map(String()))]


class TimeSleep(Standin):
    name = "sleep"
    attributes = [
        Attribute("create_duration", String(), optional=True),
        Attribute("destroy_duration", String(), optional=True),
        computed("id", String()),
        given("triggers", Map(String())),
    ]

    def values(self, planned: dict) -> dict:
        self._sleep(planned["create_duration"])
        return {"id": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")}

    def delete(self, ctx: Any, current: dict) -> None:
        self._sleep(current["destroy_duration"])

    @staticmethod
    def _sleep(duration: str | None) -> None:
        units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
        parts = re.findall(r"([\d.]+)(ms|s|m|h)", duration or "")
        factor = float(os.environ.get("STANDIN_SLEEP_FACTOR", "1"))
        time.sleep(factor * sum(float(amount) * units[unit] for amount, unit in parts))


class FileText(Standin):
    """A file with a text, which anybody may change or remove."""

    name = "text"
    attributes = [
        given("path", String(), required=True),
        Attribute("text", String(), optional=True),
        computed("size", Number()),
        Attribute("digest", String(), computed=True, sensitive=True),
        computed("id", String()),
    ]

    def create(self, ctx: Any, planned: dict) -> dict:
        Path(planned["path"]).write_text(planned["text"] or "")
        return {**planned, **self.values(planned)}

    def values(self, planned: dict) -> dict:
        text = (planned["text"] or "").encode()
        digest = hashlib.sha256(text).hexdigest()
        return {"id": planned["path"], "size": len(text), "digest": digest}

    def plan(self, ctx: Any, current: dict, planned: dict) -> dict:
        unknown = {"size": Unknown, "digest": Unknown} if "text" in ctx.changed_fields else {}
        return {**planned, **unknown}

    def read(self, ctx: Any, current: dict) -> dict | None:
        hold = Path(current["path"] + ".hold")
        if hold.exists():
            hold.with_suffix(".held").touch()
            while hold.exists():
                time.sleep(0.02)
        try:
            read = {**current, "text": Path(current["path"]).read_text()}
        except FileNotFoundError:
            return None
        return {**read, **self.values(read)}

    def update(self, ctx: Any, current: dict, planned: dict) -> dict:
        return self.create(ctx, planned)

    def delete(self, ctx: Any, current: dict) -> None:
        Path(current["path"]).unlink(missing_ok=True)


class Standins(Provider):
    """One of the providers."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get_model_prefix(self) -> str:
        return f"{self._name}_"

    def get_provider_schema(self, diags: Any) -> Schema:
        return Schema(version=0)

    def full_name(self) -> str:
        return f"registry.terraform.io/hashicorp/{self._name}"

    def validate_config(self, diags: Any, config: dict) -> None:
        pass

    def configure_provider(self, diags: Any, config: dict) -> None:
        pass

    def get_data_sources(self) -> list:
        return []

    def get_resources(self) -> list:
        return {
            "random": [RandomPet, RandomId, RandomString],
            "null": [NullResource],
            "time": [TimeSleep],
            "file": [FileText],
        }[self._name]


if __name__ == "__main__":
    run_provider(Standins(sys.argv.pop(1)))
