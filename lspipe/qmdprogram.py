"""The qmd that is installed: its script, the Node that runs it, and what both read.

The command `qmd` is a launcher that starts a second Node and passes on no signal: killed, it leaves that one
behind. So Node is started with the script itself.
"""

import os
from dataclasses import dataclass

import orjson

from lspipe import child, ledger, qmd
from lspipe.exits import Precondition

_SCRIPT = ("dist", "cli", "qmd.js")
#: Where Debian keeps parts of Node.
_NODE_READS = ("/usr/share/nodejs", "/usr/share/node_modules")
#: The models that each mode loads, and the file of each that qmd fetches when nothing else is configured.
_MODELS = {
    "embed": "embeddinggemma-300M-Q8_0.gguf", "generate": "qmd-query-expansion-1.7B-q4_k_m.gguf",
    "rerank": "qwen3-reranker-0.6b-q8_0.gguf",
}
_NEEDED = {"search": (), "vsearch": ("embed", "generate"), "query": ("embed", "generate", "rerank")}


@dataclass(frozen=True)
class Program:
    """`node` and `script` are absolute paths; `read` is what they read, beside the system's libraries."""

    node: str
    script: str
    read: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """What starts qmd."""
        return [self.node, self.script]


def find() -> Program:
    """qmd and a Node for it: the one beside the command `qmd`, as version managers have it, else that of PATH.

    Raises Precondition where one is missing or qmd is too old. How old Node is shows only when it runs.
    """
    try:
        command = child.find_program("qmd")
        package = os.path.dirname(os.path.dirname(os.path.realpath(command)))
    except Precondition as error:
        raise Precondition(error.message, _hint(error, qmd.INSTALL)) from None
    _check(command, package)
    try:
        node = child.find_program("node", env_path=os.path.dirname(command))
    except Precondition:
        try:
            node = child.find_program("node")
        except Precondition as error:
            raise Precondition(f"{error.message}, which runs qmd", _hint(error, qmd.INSTALL)) from None
    real = os.path.realpath(node)
    return Program(real, os.path.join(package, *_SCRIPT), (*_modules(package), *_NODE_READS))


def _hint(error: Precondition, otherwise: str) -> str:
    """What to do: the reason why one was passed over, if there is one."""
    return error.hint if error.hint and "passed over" in error.hint else otherwise


def _check(command: str, package: str) -> None:
    shown = ledger.text(command)
    try:
        with open(os.path.join(package, "package.json"), "rb") as file:
            version = str(orjson.loads(file.read(1 << 20)).get("version", ""))
    except (OSError, ValueError, AttributeError):
        version = ""
    if version and qmd.too_old(version, qmd.OLDEST):
        raise Precondition(f"'{shown}' is qmd {version}: too old", qmd.INSTALL)
    if not os.path.isfile(os.path.join(package, *_SCRIPT)):
        raise Precondition(f"'{shown}' is not the qmd that npm installs: there is no {'/'.join(_SCRIPT)} beside it",
                           qmd.INSTALL)


def _modules(package: str) -> tuple[str, ...]:
    """The folders of what qmd imports: its own, and the topmost `node_modules` that it lies in."""
    parts = package.split(os.sep)
    if "node_modules" not in parts:
        return (package,)
    return (os.sep.join(parts[:parts.index("node_modules") + 1]),)


def missing_models(mode: str, folder: str, config: str) -> list[str]:
    """The models that `mode` loads and that are not in `folder`: without them qmd waits for a download.

    `config` is the text of qmd's `index.yml`, which may name others.
    """
    try:
        present = [name for name in os.listdir(folder) if name.endswith(".gguf")]
    except OSError:
        present = []
    wanted = [_configured(config).get(kind, _MODELS[kind]) for kind in _NEEDED[mode]]
    return [name for name in wanted if not any(there.lower().endswith(name.lower()) for there in present)]


def _configured(config: str) -> dict[str, str]:
    """The file names of the models in `index.yml`, as qmd writes it: two spaces, the kind, a uri."""
    found = {}
    for line in config.splitlines():
        kind, colon, value = line.strip().partition(":")
        uri = value.strip().strip("\"'")
        if colon and kind in _MODELS and line.startswith(" ") and uri.endswith(".gguf"):
            found[kind] = uri.rpartition("/")[2]
    return found
