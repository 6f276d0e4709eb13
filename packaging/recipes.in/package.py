# Spack: var/spack/repos/.../packages/oomctl/package.py, or a repository of one's own.
from spack.package import *


class Oomctl(CargoPackage):
    """Submits training jobs to Slurm, recognises why they die, and submits them
    again with a configuration that fits when GPU memory ran out."""

    homepage = "@HOMEPAGE@"
    url = "@URL@"

    license("MIT OR Apache-2.0", checked_by="oomctl")

    version("@VERSION@", sha256="@SHA256@")

    depends_on("c", type="build")
    depends_on("rust@@RUST@:", type="build")

    @run_after("install")
    def install_shared(self):
        bash = which("bash", required=True)
        bash("packaging/tree", prefix.bin.oomctl, prefix)
