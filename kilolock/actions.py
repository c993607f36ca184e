"""The actions: POST /v1/<path> with a JSON object, each one SQL function.

An action's function takes the request as jsonb and the user that signed in, and answers JSON. kl
calls the same functions, through a kld or directly.
"""

from __future__ import annotations

ACTIONS: dict[str, str] = {
    "prune": "prune_versions",
    "purge": "purge_version",
    "rollback": "rollback_state",
    "rollback/resource": "rollback_resource",
    "state/mv": "move_resource",
    "state/rm": "remove_resources",
    "tag/set": "set_tag",
    "tag/unset": "unset_tag",
    "quotas/check": "check_quota",
    "quotas/set": "set_quota",
    "refresh-runs/begin": "begin_refresh",
    "refresh-runs/finish": "finish_refresh",
    "refresh-runs/preview": "preview_refresh",
    "state-engine/capabilities": "read_capabilities",
    "state-engine/apply-runs/begin": "begin_apply_run",
    "state-engine/apply-runs/finish": "finish_apply_run",
    "state-engine/apply-runs/abort": "abort_apply_run",
    "state-engine/apply-runs/status": "read_apply_run",
    "state-engine/apply-runs/{run}/status": "read_apply_run",
    "state-engine/reservations/acquire": "acquire_reservations",
    "state-engine/reservations/renew": "renew_reservations",
    "state-engine/reservations/release": "release_reservations",
    "state-engine/state/commit": "commit_delta",
}
"""Path below /v1/ to the function that does it; one named read_… answers GET too."""
