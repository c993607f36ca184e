# A state as large as you like, made of resources that cost nothing and need no account.
#
#   main.tf                 2 * size + 8 managed resources
#   slow_a.tf, slow_b.tf    one time_sleep each
#
# so size = 100 gives 210 resources and the default of 50000 gives 100,010.

terraform {
  required_version = ">= 1.4"

  required_providers {
    random = {
      source  = "hashicorp/random"
      version = "~> 3.6"
    }
    null = {
      source  = "hashicorp/null"
      version = "~> 3.2"
    }
    time = {
      source  = "hashicorp/time"
      version = "~> 0.11"
    }
  }
}

variable "size" {
  description = "Number of (tag, label) pairs in the primary herd."
  type        = number
  default     = 50000

  validation {
    condition     = var.size >= 1 && floor(var.size) == var.size
    error_message = "The size must be a whole number of at least 1."
  }
}

resource "random_pet" "deployment_name" {
  length = 3
}

resource "random_id" "deployment_id" {
  byte_length = 16

  keepers = {
    name = random_pet.deployment_name.id
  }
}

resource "null_resource" "deployment_marker" {
  triggers = {
    id   = random_id.deployment_id.hex
    name = random_pet.deployment_name.id
  }
}

module "primary_herd" {
  source = "./modules/herd"

  size = var.size
  seed = random_pet.deployment_name.id
}

# The seed is the other herd's leader: all of this herd is in the blast radius of that one resource.
module "shadow_herd" {
  source = "./modules/herd"

  size = 1
  seed = module.primary_herd.leader
}

resource "null_resource" "summary" {
  triggers = {
    primary = module.primary_herd.leader
    shadow  = module.shadow_herd.leader
    size    = var.size
  }
}

output "deployment_name" {
  description = "The pet name that this deployment goes by."
  value       = random_pet.deployment_name.id
}

output "primary_size" {
  description = "The number of pairs in the primary herd."
  value       = var.size
}
