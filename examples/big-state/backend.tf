# A kld on this machine in open mode. Behind a load balancer that drops the UNLOCK method, see
# ../local-backend/backend.tf.prodlike.

terraform {
  backend "http" {
    address        = "http://localhost:8080/v1/states/big-state"
    lock_address   = "http://localhost:8080/v1/states/big-state"
    lock_method    = "LOCK"
    unlock_address = "http://localhost:8080/v1/states/big-state"
    unlock_method  = "UNLOCK"
  }
}
