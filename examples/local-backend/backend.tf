# The smallest backend block: a kld on this machine in open mode, state name "example".
# Copy it beside your own .tf files and change the name at the end of the three addresses.

terraform {
  backend "http" {
    address        = "http://localhost:8080/v1/states/example"
    lock_address   = "http://localhost:8080/v1/states/example"
    unlock_address = "http://localhost:8080/v1/states/example"
  }
}
