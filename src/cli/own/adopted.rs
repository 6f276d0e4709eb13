//! Jobs that were submitted without oomctl.
