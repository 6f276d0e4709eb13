"""Do the rendered overrides compose against the released package?

Reads lines `{"version": "0.9.1", "overrides": ["a.b=1", …]}`, prints lines `{"ok": true}` or
`{"ok": false, "error": "…"}`.
"""

from omegaconf import OmegaConf

from composed import answer, composed


def check(case):
    OmegaConf.to_container(composed(case["version"], case["overrides"]), resolve=True)
    return {"ok": True}


if __name__ == "__main__":
    answer(check)
