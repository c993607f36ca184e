"""kilolock/hcl.py and kilolock/configuration.py: what files declare and refer to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kilolock import hcl
from kilolock.configuration import Configuration
from kilolock.discovery import SourceError

ODD = r"""
// resource "not" "here" {
/* resource "nor" "here" { */
# "
resource "a_b" "quoted" { name = "brace } in \" a ${ { x = "}" }["x"] } string" }
resource a_b bare {
  text = <<-EOT
    resource "in" "heredoc" { ${a_b.in_heredoc.id} %{ if a_b.in_directive.id }x%{ endif }
    $${a_b.escaped.id}
    EOT
  plain = <<END
}
END
  list = [
    a_b.in_list[a_b.in_index.id].id,
    { for k, v in a_b.in_for : k => v.id },
  ]
  splat = data.c.in_splat[*].id
  call  = f(module.m["k.]"].out, local.l, var.v)
  nested "labelled" {
    inner { x = resource.a_b.with_prefix.y }
  }
}
data "c" "d" {}
module "größe" { source = "./m" }
moved {
  from = a_b.old["k\"]"]
  to   = module.m[0].a_b.new
}
removed { from = a_b.gone }
import {
  for_each = local.x
  to       = a_b.imported[each.key]
  id       = each.value
}
"""


def blocks(text: str) -> list[tuple[str, ...]]:
    return [(block.kind, *block.labels) for block in hcl.read(text).blocks]


def test_blocks_are_found_among_strings_comments_and_heredocs() -> None:
    assert hcl.read(ODD).whole
    assert blocks(ODD) == [
        ("resource", "a_b", "quoted"),
        ("resource", "a_b", "bare"),
        ("data", "c", "d"),
        ("module", "größe"),
        ("moved",),
        ("removed",),
        ("import",),
    ]


def test_references_are_found_in_every_expression() -> None:
    block = hcl.read(ODD).blocks[1]
    found = set(hcl.references(list(block.tokens())))
    assert found == {
        ("a_b", "in_heredoc", "id"),
        ("a_b", "in_directive", "id"),
        ("a_b", "in_list", "id"),
        ("a_b", "in_index", "id"),
        ("a_b", "in_for"),
        ("v", "id"),
        ("data", "c", "in_splat", "id"),
        ("module", "m", "out"),
        ("local", "l"),
        ("var", "v"),
        ("resource", "a_b", "with_prefix", "y"),
    }


def test_addresses_are_written_as_terraform_writes_them() -> None:
    found = [
        hcl.address(tokens)
        for block in hcl.read(ODD).blocks[4:]
        for name, tokens in block.attributes.items()
        if name in ("from", "to")
    ]
    assert found == ['a_b.old["k\\"]"]', "module.m[0].a_b.new", "a_b.gone", "a_b.imported"]


@pytest.mark.parametrize(
    "text",
    [
        'resource "a" "b" {',
        'resource "a" "b" { x = "',
        'resource "a" "b" { x = <<E\n',
        "a = )",
        "/*",
        '"a" {}',
        'x "a" = 1',
        'x { y = "${" }',
        "x { y = [1 }",
        "{" * 5000,
        "x { y = " + "[" * 5000,
    ],
)
def test_what_is_no_hcl_is_not_whole(text: str) -> None:
    source = hcl.read('resource "a" "first" {}\n' + text)
    assert not source.whole
    assert source.blocks == [] or source.blocks[0].labels == ("a", "first")


def test_json_says_the_same_as_hcl() -> None:
    document = {
        "//": "a comment",
        "resource": {
            "a_b": {
                "one": [{"x": "${a_b.two.id}-${local.l}", "depends_on": ["module.m"]}],
                "two": {"provider": "a.west", "nested": [{"y": "plain a_b.three"}]},
            }
        },
        "module": [{"m": {"source": "./m"}}],
        "moved": [{"from": "a_b.old", "to": 'a_b.new["k"]'}],
        "locals": {"l": "${var.v}"},
    }
    source = hcl.read(json.dumps(document), is_json=True)
    assert source.whole
    one, two, module, moved, local_values = source.blocks
    assert [(b.kind, *b.labels) for b in (one, two, module)] == [
        ("resource", "a_b", "one"),
        ("resource", "a_b", "two"),
        ("module", "m"),
    ]
    assert set(hcl.references(list(one.tokens()))) == {
        ("a_b", "two", "id"),
        ("local", "l"),
        ("module", "m"),
    }
    assert set(hcl.references(list(two.tokens()))) == {("a", "west")}
    assert hcl.address(moved.attributes["to"]) == 'a_b.new["k"]'
    assert set(hcl.references(local_values.attributes["l"])) == {("var", "v")}
    assert not hcl.read("{", is_json=True).whole


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    """Modules in modules, one of them called twice."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "sub").mkdir()
    (tmp_path / ".terraform" / "modules").mkdir(parents=True)
    (tmp_path / "main.tf").write_text(
        """
        provider "p" { token = data.p_token.t.value }
        provider "q" { alias = "west" }
        variable "plain" {}
        variable "secret" { sensitive = true }
        locals {
          chosen = p_thing.base.id
          unused = p_thing.other.id
        }
        resource "p_thing" "base" { name = var.plain }
        resource "p_thing" "other" {}
        resource "p_thing" "user" { name = local.chosen }
        resource "q_thing" "aliased" { provider = q.west }
        resource "q_thing" "whole" { depends_on = [module.two] }
        data "p_token" "t" { }
        module "one" {
          source = "./net"
          name   = p_thing.user.id
          count  = length(p_thing.other.list)
        }
        module "two" {
          source = "./net"
          name   = "x"
        }
        output "from_module" { value = module.one[0].made }
        """
    )
    (tmp_path / "net" / "main.tf").write_text(
        """
        variable "name" {}
        resource "q_thing" "made" { name = var.name }
        module "sub" { source = "./sub" }
        output "made" { value = q_thing.made.id }
        output "other" { value = module.sub.out }
        """
    )
    (tmp_path / "net" / "sub" / "x.tf").write_text(
        """
        resource "q_thing" "deep" { }
        output "out" { value = q_thing.deep.id }
        moved {
          from = q_thing.shallow
          to   = q_thing.deep
        }
        """
    )
    keys = {
        "": ".",
        "one": "net",
        "two": "net",
        "one.sub": "net/sub",
        "two.sub": "net/sub",
    }
    modules = {"Modules": [{"Key": k, "Source": "", "Dir": d} for k, d in keys.items()]}
    (tmp_path / ".terraform" / "modules" / "modules.json").write_text(json.dumps(modules))
    return Configuration(tmp_path, tmp_path / ".terraform", "terraform")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("p_thing.base", {"data.p_token.t"}),
        ("p_thing.user", {"p_thing.base", "data.p_token.t"}),
        ("q_thing.aliased", set()),
        (
            "module.one.q_thing.made",
            {"p_thing.user", "p_thing.base", "p_thing.other", "data.p_token.t"},
        ),
        ("module.one[0].module.sub.q_thing.deep", {"p_thing.other", "data.p_token.t"}),
        ("module.two.q_thing.made", set()),
        ("q_thing.whole", {"module.two.q_thing.made", "module.two.module.sub.q_thing.deep"}),
        ("p_thing.not_there", set()),
    ],
)
def test_dependencies_go_through_locals_variables_modules_and_providers(
    configuration: Configuration, address: str, expected: set[str]
) -> None:
    assert configuration.dependencies([address]) == expected


def test_dependencies_of_outputs(configuration: Configuration) -> None:
    found = configuration.dependencies([], ["from_module"])
    assert "module.one.q_thing.made" in found and "p_thing.base" in found
    assert "module.one.module.sub.q_thing.deep" not in found
    assert configuration.sensitive_variables() == {"secret"}


def test_a_file_of_a_shared_module_stands_for_all_its_calls(configuration: Configuration) -> None:
    folder = configuration.directory
    net, deep = folder / "net" / "main.tf", folder / "net" / "sub" / "x.tf"
    # Module one has a count, and no instance yet: terraform takes no address inside of it.
    assert configuration.targets([net])[0] == [
        "module.one",
        "module.two.q_thing.made",
        "module.two.module.sub",
    ]
    instances = {"module.one[0]", "module.one[1]", "module.one[0].module.sub", "module.two"}
    assert configuration.targets([net], instances)[0] == [
        "module.one[0].q_thing.made",
        "module.one[0].module.sub",
        "module.one[1].q_thing.made",
        "module.one[1].module.sub",
        "module.two.q_thing.made",
        "module.two.module.sub",
    ]
    assert configuration.targets([deep], instances)[0] == [
        "module.one[0].module.sub.q_thing.deep",
        "module.one[0].module.sub.q_thing.shallow",
        "module.two.module.sub.q_thing.deep",
        "module.two.module.sub.q_thing.shallow",
    ]


def test_files_that_cannot_be_planned_alone(configuration: Configuration) -> None:
    folder = configuration.directory
    (folder / "only.tf").write_text('variable "x" {}')
    (folder / "broken.tf").write_text("resource {{")
    (folder / "notes.txt").write_text("")
    for name, reason in (
        ("only.tf", "nothing that can be planned"),
        ("broken.tf", "cannot be read"),
        ("notes.txt", "no file of the configuration"),
    ):
        with pytest.raises(SourceError, match=reason):
            configuration.targets([folder / name])
    assert configuration.targets([folder / "only.tf", folder / "main.tf"]) == (
        configuration.targets([folder / "main.tf"])[0],
        [folder / "only.tf"],
    )


def test_tofu_reads_its_own_files_instead(configuration: Configuration) -> None:
    folder = configuration.directory
    (folder / "main.tofu").write_text("")
    tofu = Configuration(folder, folder / ".terraform", "tofu")
    assert [f.name for f in tofu.files(folder)] == ["main.tofu"]
    assert [f.name for f in configuration.files(folder)] == ["main.tf"]
