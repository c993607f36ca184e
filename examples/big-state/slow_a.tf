# Takes half a minute to create. Only a new slow_a_version replaces it.

variable "slow_a_version" {
  description = "Change this to replace time_sleep.slow_a."
  type        = string
  default     = "v1"
}

resource "time_sleep" "slow_a" {
  create_duration = "30s"

  triggers = {
    version = var.slow_a_version
  }
}
