-- For Lmod: the name of this file is the version, and it lies in PREFIX/share/modulefiles/oomctl/.
local here = myFileName()
local prefix = here:match("^(.*)/share/modulefiles/oomctl/[^/]+$")
whatis("Name: oomctl")
whatis("Version: " .. myModuleVersion())
whatis("Description: submits training jobs to Slurm, and again with a configuration that fits when GPU memory ran out")
help([[oomctl submit, watch, diagnose: see `oomctl --help` and man oomctl-submit.

systemd has a program of the same name. This module puts ours first; `oomctl doctor` says which one a shell finds.]])
conflict("oomctl")
prepend_path("PATH", pathJoin(prefix, "bin"))
-- The empty entry stands for the system's own pages.
append_path("MANPATH", "", ":")
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
