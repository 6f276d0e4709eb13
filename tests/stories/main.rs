//! Stories: the binary as its user meets it, on this machine's own backend and before a scripted Slurm.

#![allow(
    clippy::disallowed_methods,
    reason = "tests touch files, processes and the clock"
)]

mod adopt;
mod adopting;
mod after_log;
mod afterwards;
mod bad_configuration;
mod before_training;
mod browser;
mod cancelling;
mod composed_groups;
mod containers;
mod crash;
mod data_parallel;
mod described;
mod diagnose;
mod diagnosis;
mod differential;
mod dimensions;
mod doctor;
mod efficiency;
mod endings;
mod environment;
mod errors;
mod first_hour;
mod fix;
mod fixing;
mod flux_fake;
mod frameworks;
mod gpus;
#[path = "../verl/harness.rs"]
mod harness;
mod history;
mod hostile;
mod interactive;
mod killed_watch;
mod launch;
mod launch_run;
mod learning;
mod levers;
mod lightning;
mod links;
mod live;
mod loaded_settings;
mod local_backend;
mod local_jobs;
#[path = "../repository/documents/messages.rs"]
mod messages;
mod misread;
mod newcomer;
mod nodes;
mod notices;
#[path = "../nvml/mod.rs"]
mod nvml;
mod one_machine;
mod other_launchers;
mod output;
mod over_time;
mod own_arrays;
mod own_programs;
mod own_scripts;
mod own_variables;
mod peers;
mod permission;
mod phantom;
mod picture;
mod pipeline;
mod place;
mod plain_code;
mod program_values;
mod promises;
mod python_package;
mod redirected;
mod refused;
mod report;
mod resuming;
mod running;
mod sampler;
mod scheduler_fake;
mod schema;
mod script_job;
mod script_table;
mod second_stranger;
mod sectioned_options;
mod settings_modules;
mod shell;
mod slurm;
mod snapshot;
mod storage;
mod stranger;
mod swarm;
mod sweep_submit;
mod sweeps;
mod tab;
mod templates;
mod tenth_stranger;
mod third_stranger;
mod thirteenth_stranger;
mod torchrun_preset;
mod tuning;
mod understood;
mod unseen;
mod unseen_again;
mod upgrade;
mod verl_legality;
mod verl_preset;
#[path = "../verl/walk.rs"]
mod walk;
mod weaver;
mod whole_copies;
mod withdrawn;
mod witnesses;
mod written;
