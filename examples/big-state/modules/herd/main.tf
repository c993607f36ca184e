# One leader, and `size` pairs of a tag and a label that follow it.
#
# Terraform records dependencies by block, not by instance: a member that mentioned another counted block would be
# recorded as depending on all of its instances, size * size edges for the pair. Each member therefore refers to the
# leader alone, and the outputs hand on nothing but the leader. Edges stay linear in size: one to the leader and one
# to whatever the seed came from.

terraform {
  required_providers {
    random = {
      source  = "hashicorp/random"
      version = "~> 3.6"
    }
  }
}

variable "size" {
  description = "Number of (tag, label) pairs."
  type        = number
}

variable "seed" {
  description = "Any string; another one replaces the whole herd."
  type        = string
}

resource "random_id" "leader" {
  byte_length = 16

  keepers = {
    seed = var.seed
  }
}

resource "random_id" "tag" {
  count       = var.size
  byte_length = 8

  keepers = {
    leader = random_id.leader.hex
  }
}

resource "random_string" "label" {
  count   = var.size
  length  = 32
  special = false
  upper   = false

  keepers = {
    leader = random_id.leader.hex
  }
}

output "leader" {
  description = "The identifier of the herd's leader."
  value       = random_id.leader.hex
}
