# Takes half a minute to create. Only a new slow_b_version replaces it.

variable "slow_b_version" {
  description = "Change this to replace time_sleep.slow_b."
  type        = string
  default     = "v1"
}

resource "time_sleep" "slow_b" {
  create_duration = "30s"

  triggers = {
    version = var.slow_b_version
  }
}
