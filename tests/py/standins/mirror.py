"""Make a filesystem mirror of the stand-in providers."""

from __future__ import annotations

import platform
import shlex
import sys
import zipfile
from pathlib import Path

PROVIDERS = {"random": "3.99.0", "null": "3.99.0", "time": "0.99.0", "file": "1.0.0"}
HOSTS = ("registry.terraform.io", "registry.opentofu.org")
MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def make_mirror(folder: Path) -> Path:
    """Fill the folder and return the path of the CLI configuration, for ``TF_CLI_CONFIG_FILE``.

    The archives are packed: Terraform unpacks them into ``.terraform`` as it does with real ones,
    where an unpacked mirror would leave symbolic links.
    """
    target = f"{platform.system().lower()}_{MACHINES[platform.machine().lower()]}"
    script = Path(__file__).with_name("provider.py").resolve()
    for name, version in PROVIDERS.items():
        launcher = (
            f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(script))} {name}\n"
        )
        for host in HOSTS:
            place = folder / "mirror" / host / "hashicorp" / name
            place.mkdir(parents=True)
            entry = zipfile.ZipInfo(f"terraform-provider-{name}_v{version}", (2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100755 << 16
            archive = place / f"terraform-provider-{name}_{version}_{target}.zip"
            with zipfile.ZipFile(archive, "w") as packed:
                packed.writestr(entry, launcher)
    config = folder / "terraform.rc"
    config.write_text(
        "disable_checkpoint = true\n"
        "provider_installation {\n"
        f'  filesystem_mirror {{\n    path = "{folder / "mirror"}"\n  }}\n'
        "}\n"
    )
    return config
