"""Proxies that the environment names: Flower takes them for every address, also for one on this machine."""

from __future__ import annotations

import os
import re
from urllib.request import getproxies, proxy_bypass

__all__ = ["direct", "proxy_of"]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def direct() -> dict[str, str]:
    """Return the variables by which addresses of this machine are reached without a proxy."""
    known = os.environ.get("NO_PROXY") or os.environ.get("no_proxy", "")
    hosts = ",".join([*filter(None, [known]), *(one for one in _LOOPBACK if one not in known.split(","))])
    return {"NO_PROXY": hosts, "no_proxy": hosts}


def proxy_of(host: str) -> str:
    """Return the variable, and the proxy in it, through which a host is reached with TLS; "" for none."""
    scheme = next((one for one in ("https", "all") if one in getproxies()), "")
    if not scheme or host in _LOOPBACK or proxy_bypass(host):
        return ""
    return f"{scheme.upper()}_PROXY={re.sub(r'//[^/@]*@', '//', getproxies()[scheme])}"  # without its password
