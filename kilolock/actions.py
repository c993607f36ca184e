"""The actions: POST /v1/<path> with a JSON object, each one SQL function.

An action's function takes the request as jsonb and the user that signed in, and answers JSON. kl
calls the same functions, through a kld or directly.
"""

from __future__ import annotations

ACTIONS: dict[str, str] = {
    "rollback": "rollback_state",
    "tag/set": "set_tag",
    "tag/unset": "unset_tag",
    "quotas/check": "check_quota",
    "quotas/set": "set_quota",
    "refresh-runs/begin": "begin_refresh",
    "refresh-runs/finish": "finish_refresh",
    "refresh-runs/preview": "preview_refresh",
}
"""Path below /v1/ to the function that does it."""
