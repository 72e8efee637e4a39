"""The online stage: methods that diagnose an unlabelled stream, most of which adapt to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgsa.registry import Registry

if TYPE_CHECKING:
    from cgsa.online.base import OnlineMethod

METHODS: Registry[type[OnlineMethod]] = Registry(
    "online method",
    "cgsa.methods",
    {
        "accup": "cgsa.online.accup:Accup",
        "adacontrast": "cgsa.online.adacontrast:AdaContrast",
        "cgsa": "cgsa.online.cgsa:Cgsa",
        "cgsa_joined": "cgsa.online.cgsa_joined:CgsaJoined",
        "change": "cgsa.online.change:Change",
        "cofa": "cgsa.online.cofa:Cofa",
        "commissioning": "cgsa.online.commissioning:Commissioning",
        "cotta": "cgsa.online.cotta:Cotta",
        "dplot": "cgsa.online.dplot:Dplot",
        "lame": "cgsa.online.lame:Lame",
        "oafd": "cgsa.online.oafd:Oafd",
        "reference": "cgsa.online.reference:Reference",
        "roid": "cgsa.online.roid:Roid",
        "rotta": "cgsa.online.rotta:Rotta",
        "sar": "cgsa.online.sar:Sar",
        "source": "cgsa.online.source:FrozenSource",
        "surgeon": "cgsa.online.surgeon:Surgeon",
        "tent_full": "cgsa.online.tent_full:TentFull",
        "tri_training": "cgsa.online.tri_training:TriTraining",
    },
)
