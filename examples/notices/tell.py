#!/usr/bin/env python3
"""Hands a notice of oomctl on: tell.py slack|ntfy FILE, or tell.py mail ADDRESS. FILE holds the URL, and only you can read it."""

import email.message
import json
import os
import subprocess
import sys
import urllib.request


def url(path):
    """The URL in a file; it is as good as a password."""
    path = os.path.expanduser(path)
    if os.stat(path).st_mode & 0o077:
        sys.exit(f"others can read {path}: chmod 600 {path}")
    with open(path) as file:
        url = file.read().strip()
    return url if url.startswith(("http://", "https://")) else sys.exit(f"{path} holds no URL")


def post(path, body, headers):
    request = urllib.request.Request(url(path), body.encode(), headers)
    urllib.request.urlopen(request, timeout=15).close()


def slack(title, text, path):
    shown = text if title == text else f"*{title}*\n{text}"
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        shown = shown.replace(sign, name)
    post(path, json.dumps({"text": shown}), {"Content-Type": "application/json"})


def ntfy(title, text, path):
    post(path, text, {"Title": title.encode("ascii", "replace").decode()})


def mail(title, text, address):
    message = email.message.EmailMessage()
    message["To"], message["Subject"] = address, title.replace("\n", " ")
    message.set_content(text)
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/lib"])
    environment = {**os.environ, "PATH": path}
    subprocess.run(["sendmail", "-i", "-t"], input=message.as_bytes(), env=environment, check=True)


notice = json.load(sys.stdin)
way = {"slack": slack, "ntfy": ntfy, "mail": mail}[sys.argv[1]]
way(notice["title"], notice["text"], sys.argv[2])
