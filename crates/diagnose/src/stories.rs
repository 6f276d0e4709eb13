//! Whole logs in the real formats, and what must be said about them. The text is written for these
//! tests; formats are those of verl 0.4 to 0.9, PyTorch 1.13 to 2.9, Ray 2.x, torchrun, vLLM, Slurm.

use proptest::prelude::*;

use super::*;
use oomctl_base::job::{ExitStatus, JobId, JobState, JobStatus};
use oomctl_base::units::Bytes;

const OOM: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.18 GiB of which 1.10 GiB is free. Process 4321 has 78.07 GiB memory in use. Of the allocated memory 70.11 GiB is allocated by PyTorch, and 6.02 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

/// A verl job that dies in the actor's update, as Ray's driver prints it.
fn verl_actor_update() -> String {
    format!(
        "(TaskRunner pid=900) Training Progress:   2%|▏         | 2/105 [11:07<9:26:40, 330.1s/it]\r\
\u{1b}[36m(TaskRunner pid=900)\u{1b}[0m step:3 - actor/pg_loss:0.012 - perf/max_memory_reserved_gb:76.551
\u{1b}[36m(WorkerDict pid=4321)\u{1b}[0m INFO:2026-03-02 10:12:44,120:Before update policy, memory allocated (GB): 12.01
Error executing job with overrides: ['data.train_batch_size=1024', 'actor_rollout_ref.rollout.gpu_memory_utilization=0.6']
Traceback (most recent call last):
  File \"/opt/verl/verl/trainer/main_ppo.py\", line 64, in main
    run_ppo(config)
  File \"/opt/verl/verl/trainer/ppo/ray_trainer.py\", line 1010, in fit
    actor_output = self.actor_rollout_wg.update_actor(batch)
ray.exceptions.RayTaskError(OutOfMemoryError): \u{1b}[36mray::WorkerDict.actor_rollout_update_actor()\u{1b}[39m (pid=4321, ip=192.0.2.7, actor_id=0f, repr=<verl.single_controller.ray.base.WorkerDict object at 0x7f>)
  File \"/opt/verl/verl/workers/actor/dp_actor.py\", line 498, in update_policy
    loss.backward()
  File \"/opt/lib/torch/_tensor.py\", line 581, in backward
    torch.autograd.backward(
{OOM}
The actor is dead because its worker process has died. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage.
srun: error: gpu07: task 0: Exited with exit code 1
"
    )
}

fn scan(logs: &[(&str, &str)]) -> Scanner {
    let mut scanner = Scanner::new(&[]);
    for (name, text) in logs {
        let source = scanner.source(name);
        scanner.feed(source, 0, text.as_bytes());
        scanner.finish_source(source);
    }
    scanner
}

fn verdict(text: &str) -> Incident {
    scan(&[("job.err", text)]).verdict(None)
}

fn job(state: JobState, code: i32, signal: i32) -> JobStatus {
    JobStatus {
        exit: Some(ExitStatus::of(code, signal)),
        ..JobStatus::bare(JobId("4711".into()), state)
    }
}

fn roles(incident: &Incident, role: EvidenceRole) -> Vec<&str> {
    incident
        .evidence
        .iter()
        .filter(|e| e.role == role)
        .map(|e| e.signature.as_str())
        .collect()
}

#[test]
fn steps_as_large_as_a_number_can_be_are_read_without_overflow() {
    let most = u64::MAX;
    let bar = |step: u64| format!("Training Progress: 10%|#  | {step}/{most} [00:01<00:09]\n");
    let oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";
    for steps in [
        [0, 1, most, most],
        [most, most, 0, most],
        [0, most, 1, most - 1],
    ] {
        let [a, b, c, d] = steps.map(bar);
        let mut scanner = Scanner::new(&ProgressPattern::built_in());
        let source = scanner.source("log");
        scanner.feed(source, 0, format!("{a}{b}{oom}{c}{d}{oom}").as_bytes());
        scanner.finish_source(source);
        assert_eq!(scanner.verdict(None).kind, "cuda_oom");
    }
}

#[test]
fn the_rest_that_every_cache_has_is_no_fragmentation() {
    // Of 79 GiB 0.9 lie idle, more than the 112 MiB that were asked for.
    let small = OOM
        .replace("allocate 2.00 GiB", "allocate 112.00 MiB")
        .replace("6.02 GiB", "0.90 GiB");
    assert!(verdict(OOM).fragmentation);
    assert!(!verdict(&small).fragmentation);
}

#[test]
fn host_memory_that_ends_after_many_epochs_grows() {
    let killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.batch. Some of the step tasks have been OOM Killed.";
    let notes = |lines: &str| verdict(&format!("{lines}\n{killed}\n")).notes.join("\n");
    assert!(notes("Epoch 111/1000: loss 0.04").contains("110 epochs over the same data"));
    assert!(notes("epoch [12/300] loss 0.04").contains("11 epochs"));
    assert!(!notes("Epoch 2/1000: loss 0.04").contains("host memory grows"));
    assert!(!notes("loss 0.04").contains("host memory grows"));
    let open = "/w/utils.py:48: RuntimeWarning: More than 20 figures have been opened. Figures created through the pyplot interface are retained until explicitly closed";
    assert!(notes(open).contains("plt.close()"));
}

#[test]
fn the_log_names_a_limit_of_its_own() {
    let limit = "[INFO:swift] Setting max_pixels: 12845056. You can adjust this hyperparameter through the environment variable: `MAX_PIXELS`.";
    let notes = verdict(&format!("{limit}\n{OOM}\n")).notes.join("\n");
    assert!(notes.contains("max_pixels is 12845056 (variable MAX_PIXELS)"));
}

#[test]
fn a_worker_of_ones_own_pool_that_is_gone_may_have_had_no_memory() {
    let incident = verdict(
        "Traceback (most recent call last):\n  File \"/w/nnunetv2/preprocessing/preprocessors/default_preprocessor.py\", line 246, in run\n    \
         raise RuntimeError('Some background worker is 6 feet under. Yuck. \\n'\nRuntimeError: Some background worker is 6 feet under. Yuck. \nOK jokes aside.\n",
    );
    assert_eq!(
        (incident.kind.as_str(), incident.is_host_oom),
        ("host_oom", Tri::Ambiguous)
    );
    assert!(
        incident
            .helps
            .iter()
            .any(|h| h.contains("fewer worker processes"))
    );
}

#[test]
fn a_verl_job_that_dies_in_the_actors_update() {
    let incident = verdict(&verl_actor_update());
    assert_eq!(incident.kind, "cuda_oom");
    assert_eq!(
        (incident.class, incident.is_gpu_oom, incident.fatal),
        (Class::GpuOom, Tri::True, true)
    );
    assert_eq!(incident.phase, "actor_update");
    assert_eq!((incident.step, incident.first_step), (Some(4), Some(false)));
    assert_eq!(incident.device_index, Some(1));
    assert_eq!(incident.requested_bytes, Some(Bytes::from_gib(2.0)));
    assert_eq!(
        incident.reserved_bytes.map(|b| b.to_string()),
        Some("76.13 GiB".into())
    );
    assert!(
        incident.fragmentation,
        "6.02 GiB lie idle for a request of 2 GiB"
    );
    assert_eq!(incident.co_tenant_bytes, None);
    let root = &incident.evidence[0];
    assert_eq!(
        (root.signature.as_str(), root.line, root.role),
        ("torch_cuda_oom", 14, EvidenceRole::Root)
    );
    let text = verl_actor_update();
    let at = usize::try_from(root.offset).unwrap();
    assert!(text[at..].starts_with("torch.OutOfMemoryError: CUDA out of memory."));
    assert_eq!(
        roles(&incident, EvidenceRole::Confirmation),
        ["torch_oom_class"]
    );
    let after: Vec<_> = incident
        .consequences
        .iter()
        .map(|e| e.signature.as_str())
        .collect();
    assert_eq!(after, ["hydra_error", "ray_actor_died", "srun_task_ended"]);
    assert_eq!(
        incident.headline(),
        "GPU 1 ran out of memory in actor_update: 2.00 GiB requested, 1.10 GiB free of 79.18 GiB"
    );
}

#[test]
fn a_box_whose_head_was_cut_off_is_a_traceback_that_does_not_end() {
    let frames = "\
│ /opt/env/lib/python3.11/site-packages/torch/nn/modules/module.py:1751 in _wrapped_call_impl      │
│                                                                                                  │
│ /w/models/net.py:88 in forward                                                                   │
│                                                                                                  │
│ ❱ 88 │   │   x = self.mlp(x)                                                                     │
";
    let incident = verdict(frames);
    assert_eq!((incident.kind.as_str(), incident.fatal), ("other", true));
    assert_eq!(incident.phase, "forward");
    assert_eq!(
        incident.frame.map(|frame| frame.to_string()).as_deref(),
        Some("/w/models/net.py:88 in forward")
    );
    assert_eq!(
        verdict(&format!("{frames}╰──────╯\n{OOM}\n")).kind,
        "cuda_oom"
    );
}

#[test]
fn frames_that_a_narrow_box_breaks_are_joined() {
    let frames = "\
╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /home/me/code/finetune.py:273 in train                                       │
│                                                                              │
│ ❱ 273 │   trainer.train()                                                    │
│                                                                              │
│ /opt/conda/lib/python3.11/site-packages/transformers/trainer.py:2019 in      │
│ _maybe_log_save_evaluate                                                     │
│                                                                              │
│ ❱ 2019 │   │   │   self._save_checkpoint(model, trial)                       │
│                                                                              │
│ /opt/conda/lib/python3.11/site-packages/some_package_of_a_long_name/and_a_fo │
│ lder/of_a_long_name/state.py:88 in gather                                    │
│                                                                              │
│ ❱ 88 │   return torch.cat(parts)                                             │
╰──────────────────────────────────────────────────────────────────────────────╯
";
    let incident = verdict(&format!("{frames}{OOM}\n"));
    assert_eq!(incident.phase, "checkpoint");
    let own = incident.frame.map(|frame| frame.to_string());
    assert_eq!(
        own.as_deref(),
        Some("/home/me/code/finetune.py:273 in train")
    );
}

/// What Slurm says of a job whose host memory ran out.
const OF_HOST: &str = "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.batch. Some of the step tasks have been OOM Killed.\n";

#[test]
fn host_memory_that_runs_out_before_the_first_step_ran_out_while_data_were_prepared() {
    let phase = |log: &str| verdict(&format!("{log}\n{OF_HOST}")).phase;
    let caching =
        "train: Caching images (31.0GB RAM):  52%|█████▏    | 5200/10000 [00:40<00:36, 130.00it/s]";
    let mapping = "Map (num_proc=8):  12%|█▏        | 1200/10000 [00:10<01:10, 125.00 examples/s]";
    assert_eq!(phase(caching), "preprocessing");
    assert_eq!(phase(mapping), "preprocessing");
    let trains = format!("{mapping}\n  1%|          | 9/900 [00:09<14:51,  1.00s/it]");
    assert_eq!(phase(&trains), "dataloader");
}

#[test]
fn the_loss_of_classes_is_no_loss_of_words() {
    let of = |frames: &str| {
        let died = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free.";
        let log = format!("Traceback (most recent call last):\n{frames}\n{died}\n");
        verdict(&log).logits
    };
    let functional = "  File \"/env/lib/python3.11/site-packages/torch/nn/functional.py\", line 3104, in cross_entropy\n    return torch._C._nn.cross_entropy_loss(";
    let pixels =
        "  File \"/job/train.py\", line 9, in step\n    loss = F.cross_entropy(net(images), masks)";
    assert!(!of(&format!("{pixels}\n{functional}")));
    let words = "  File \"/job/train.py\", line 9, in step\n    loss = F.cross_entropy(net(tokens), targets)";
    assert!(of(&format!("{words}\n{functional}")));
}

#[test]
fn an_engine_that_takes_its_cache_back_wakes_up() {
    let log = "\
ray.exceptions.RayTaskError(OutOfMemoryError): ray::EngineActor.backload_to_gpu() (pid=77, ip=10.0.0.7)
  File \"/job/engine.py\", line 42, in backload_to_gpu
    self.cache = [block.cuda() for block in self.kept]
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free. Process 77 has 40.00 GiB memory in use. Process 78 has 38.00 GiB memory in use. Of the allocated memory 39.00 GiB is allocated by PyTorch, and 0.10 GiB is reserved by PyTorch but unallocated.
";
    let incident = verdict(log);
    assert_eq!(incident.phase, "wake_up");
    let notes = incident.notes.join("\n");
    assert!(
        notes.contains("its inference engine or its trainer"),
        "{notes}"
    );
}

#[test]
fn the_step_in_which_it_died_did_not_go_well() {
    let log = |bar: &str| {
        format!(
            "{bar}\nTraceback (most recent call last):\n  File \"/job/t.py\", line 9, in <module>\n    y = model(x)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free.\n"
        )
    };
    let notes = |bar: &str| verdict(&log(bar)).notes.join("\n");
    let bar = " 12%|█▏        | 120/1000 [02:00<14:40,  1.00s/it]";
    let said = notes(bar);
    assert!(said.starts_with("120 steps went well before"), "{said}");
    let said = notes(&format!("epoch: 9/20, loss: 0.4\n{bar}"));
    assert!(said.starts_with("whole epochs went well before"), "{said}");
}

#[test]
fn a_worker_of_datasets_that_is_gone_was_mostly_killed_for_host_memory() {
    let log = "\
│ ❱ 713 │   │   │   │   │   raise RuntimeError(                                                    │
│   714 │   │   │   │   │   │   \"One of the subprocesses has abruptly died during map operation.\"  │
╰──────────────────────────────────────────────────────────────────────────────────────────────────╯
RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable multiprocessing.
";
    let incident = verdict(log);
    assert_eq!(incident.kind, "host_oom");
    assert_eq!(incident.is_host_oom, Tri::Ambiguous);
    assert_eq!(incident.phase, "preprocessing");
    assert!(incident.says_what_helps());
    assert!(!verdict("train.sh: line 3: 77 Killed  python3 t.py\n").says_what_helps());
}

#[test]
fn the_root_is_the_first_failing_rank_and_the_watchdogs_are_consequences() {
    let log = "\
[rank5]:[E302 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.
[rank2]: Traceback (most recent call last):
[rank2]:   File \"/opt/train.py\", line 210, in <module>
[rank2]:     optimizer.step()
[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB. GPU 2 has a total capacity of 79.18 GiB of which 87.19 MiB is free. Including non-PyTorch memory, this process has 79.05 GiB memory in use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 50.00 MiB is reserved by PyTorch but unallocated.
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 99.00 MiB. GPU 3 has a total capacity of 79.18 GiB of which 10.00 MiB is free. Of the allocated memory 78.00 GiB is allocated by PyTorch, and 9.00 MiB is reserved by PyTorch but unallocated.
W0302 05:20:11.000000 1200 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 1201 closing signal SIGTERM
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
";
    let incident = verdict(log);
    assert_eq!(
        (incident.kind.as_str(), incident.rank, incident.device_index),
        ("cuda_oom", Some(2), Some(2))
    );
    assert_eq!(incident.phase, "optimizer_step");
    assert!(!incident.fragmentation);
    assert_eq!(incident.consequences[0].signature, "nccl_watchdog");
    assert_eq!(
        roles(&incident, EvidenceRole::Confirmation),
        ["torch_cuda_oom"]
    );
}

#[test]
fn across_files_the_time_stamps_decide() {
    let stamped = |time: &str, device: u32| {
        format!(
            "(VllmWorker rank={device} pid=9) ERROR 03-02 {time} [executor.py:470] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU {device} has a total capacity of 79.18 GiB of which 0.10 GiB is free.\n"
        )
    };
    let (late, early) = (stamped("10:00:05", 1), stamped("10:00:01", 2));
    let scanner = scan(&[("node1.err", &late), ("node2.err", &early)]);
    let incident = scanner.verdict(None);
    assert_eq!(incident.device_index, Some(2));
    assert_eq!(incident.evidence[0].file, "node2.err");
}

#[test]
fn messages_of_every_generation_wrapped_and_glued() {
    let wrapped = "RuntimeError: CUDA out of memory. Tried to allocate 640.00 MiB (GPU 0;\n23.69 GiB total capacity; 20.50 GiB already allocated; 256.00 MiB free;\n21.75 GiB reserved in total by PyTorch) If reserved memory is >> allocated\nmemory try setting max_split_size_mb\n";
    let incident = verdict(wrapped);
    assert_eq!(incident.free_bytes, Some(Bytes(256 << 20)));
    assert_eq!(incident.reserved_bytes, Some(Bytes::from_gib(21.75)));
    assert!(
        incident.evidence[0]
            .text
            .contains("21.75 GiB reserved in total")
    );

    let broken_in_a_word = "E xla/local_client.cc:672] Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out\n of memory while trying to allocate 4294967296 bytes.\n";
    let incident = verdict(broken_in_a_word);
    assert_eq!(
        (incident.kind.as_str(), incident.requested_bytes),
        ("jax_oom", Some(Bytes(1 << 32)))
    );

    let glued = format!("  1%|          | 24/1752 [01:08<1:22:36,  2.86s/it]{OOM}");
    assert_eq!(verdict(&glued).kind, "cuda_oom");
}

#[test]
fn words_about_memory_are_no_failure() {
    for text in [
        "+ export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
        "# on CUDA out of memory: halve the batch\n",
        "+ grep -q 'CUDA out of memory' train.log\n",
        "config: {'retry_on_oom': True, 'message': 'CUDA out of memory'}\n",
        "    if 'CUDA out of memory' in str(e):\n",
        "    raise ValueError(\"No available memory for the cache blocks. \"\n",
        "    except torch.cuda.OutOfMemoryError as e:\n",
        "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
        "WARNING 08-20 10:18:39 scheduler.py:1141] Sequence group 7 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space.\n",
        "[2026-03-02 08:12:44,441] [WARNING] [stage3.py:2069:step] 3 pytorch allocator cache flushes since last step. this happens when there is high memory pressure\n",
        "slurmstepd: error: Exceeded step memory limit at some point.\n",
        "(raylet) node_manager.cc:3084: 0 Workers (tasks / actors) killed due to memory pressure (OOM), 1 Workers crashed\n",
        "Killed by the moderator: 0 samples\n",
        "",
    ] {
        let incident = verdict(text);
        assert_eq!(
            (incident.kind.as_str(), incident.fatal),
            ("no_failure", false),
            "{text}"
        );
        assert_eq!(incident.is_gpu_oom, Tri::False);
    }
}

fn bar(step: u64) -> String {
    format!("  1%|          | {step}/1000 [00:10<10:00,  1.00s/it]\n")
}

#[test]
fn a_failure_after_which_training_went_on_was_survived() {
    let caught = format!(
        "{}WARNING: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 23.69 GiB total capacity; 22.00 GiB already allocated; 0.10 GiB free; 23.00 GiB reserved in total by PyTorch)\nskipping batch\n",
        bar(7)
    );
    let scanner = scan(&[("e", &caught)]);
    assert_eq!(scanner.digest().incident, None);
    assert!(!scanner.verdict(None).fatal);

    let printed = format!(
        "{}Traceback (most recent call last):\nRuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\n",
        bar(7)
    );
    let mut scanner = scan(&[("e", &printed)]);
    let digest = scanner.digest();
    assert_eq!(digest.incident.unwrap().kind, "cuda_oom");
    let source = scanner.source("e");
    assert_eq!(scanner.digest().steps_after_incident, 0);
    scanner.feed(source, 0, bar(50).as_bytes());
    assert!(
        scanner.digest().incident.is_some(),
        "another file's progress proves nothing"
    );

    let went_on = printed + &bar(8) + &bar(9);
    let scanner = scan(&[("e", &went_on)]);
    assert_eq!(scanner.digest().incident, None);
    let incident = scanner.verdict(None);
    assert_eq!(
        (incident.kind.as_str(), incident.fatal),
        ("no_failure", false)
    );
    assert_eq!(roles(&incident, EvidenceRole::Survived), ["torch_cuda_oom"]);
}

#[test]
fn a_survived_failure_does_not_hide_the_one_that_kills() {
    let mut log = bar(7)
        + "WARNING: caught OOM: CUDA out of memory. Tried to allocate 1.00 GiB, retrying with batch size 4\n";
    for step in 8..30 {
        log += &bar(step);
    }
    log += "slurmstepd-gpu07: error: *** JOB 4711 ON gpu07 CANCELLED AT 2026-03-02T01:57:33 DUE TO TIME LIMIT ***\n";
    let incident = verdict(&log);
    assert_eq!(incident.kind, "time_limit");
    assert_eq!(roles(&incident, EvidenceRole::Survived), ["torch_cuda_oom"]);
}

#[test]
fn work_that_other_processes_finish_does_not_make_a_dead_rank_alive() {
    let log = format!(
        "{}[rank1]: {OOM}\n[2026-03-02 01:24:59,694] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711\n{}{}{}",
        bar(7),
        bar(8),
        bar(9),
        bar(10)
    );
    assert_eq!(verdict(&log).kind, "cuda_oom");
}

#[test]
fn the_end_of_a_run_supersedes_what_failed_before_unless_a_script_merely_says_so() {
    let died = format!("{}Traceback (most recent call last):\n{OOM}\n", bar(7));
    let echoed = died.clone() + "Training finished\n";
    assert_eq!(verdict(&echoed).kind, "cuda_oom");
    let finished = died.clone() + &bar(8) + "Training finished\n";
    assert_eq!(verdict(&finished).kind, "no_failure");
    let again = died
        + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        + &bar(1)
        + "{'train_runtime': 601.9, 'train_loss': 1.4}\n";
    assert_eq!(verdict(&again).kind, "no_failure");
}

#[test]
fn a_hydra_program_that_raised_did_not_succeed_whatever_the_exit_code() {
    let died = "(raylet) A worker died or was killed while executing a task by an unexpected system error.\n";
    let raised = "Error executing job with overrides: ['lr=1']\nray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n";
    let completed = job(JobState::Completed, 0, 0);
    let fatal = |log: &str| scan(&[("a.err", log)]).verdict(Some(&completed)).fatal;
    assert!(fatal(&format!("{died}{raised}")));
    assert!(!fatal(died));
    let later: String = (7..60).map(bar).collect();
    assert!(!fatal(&format!("{died}{raised}{later}")));
}

#[test]
fn a_log_that_ends_inside_a_traceback_says_so() {
    let log = "Traceback (most recent call last):\n  File \"/opt/train.py\", line 3, in main\n";
    let incident = verdict(log);
    assert_eq!((incident.kind.as_str(), incident.fatal), ("other", true));
    assert!(incident.notes[0].contains("ends inside a traceback"));
    assert_eq!(verdict(&(log.to_owned() + &bar(4))).kind, "no_failure");
}

#[test]
fn lines_that_a_log_shipper_calls_information_are_errors_in_a_traceback() {
    let log = format!(
        "2026-03-02 10:13:05 | INFO | stderr | Traceback (most recent call last):\n2026-03-02 10:13:05 | INFO | stderr |   File \"/opt/train.py\", line 3, in main\n2026-03-02 10:13:05 | INFO | stderr | {OOM}\n"
    );
    assert!(verdict(&log).fatal);
}

#[test]
fn handling_that_fails_is_fatal() {
    let log = "2026-03-02 22:55:35 | WARNING | fairseq.trainer | OOM: Ran out of memory with exception: CUDA out of memory. Tried to allocate 28.00 MiB (GPU 1; 10.92 GiB total capacity; 10.13 GiB already allocated; 13.38 MiB free; 10.33 GiB reserved in total by PyTorch)
2026-03-02 22:55:35 | WARNING | fairseq.trainer | attempting to recover from OOM in forward/backward pass
Traceback (most recent call last):
  File \"/opt/bin/fairseq-train\", line 33, in <module>
";
    let incident = verdict(log);
    assert_eq!((incident.kind.as_str(), incident.fatal), ("cuda_oom", true));
}

#[test]
fn an_absurd_size_behind_a_timeout_is_its_consequence() {
    let log = "[E ProcessGroupNCCL.cpp:475] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800614 milliseconds before timing out.
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.
";
    assert_eq!(verdict(log).kind, "nccl_timeout");
}

#[test]
fn the_engines_budget_is_a_class_of_its_own() {
    let log = "(EngineCore_DP0 pid=22) ERROR 10-25 13:08:43 [core.py:708]     raise ValueError(\"No available memory for the cache blocks. \"
(EngineCore_DP0 pid=22) ERROR 10-25 13:08:43 [core.py:708] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
";
    let incident = verdict(log);
    assert_eq!(
        (
            incident.kind.as_str(),
            incident.class,
            incident.phase.as_str()
        ),
        ("vllm_kv_cache", Class::EngineMemory, "kv_cache")
    );
    assert_eq!(incident.evidence[0].line, 2);
    assert_eq!(incident.consequences[0].signature, "engine_core_failed");
}

#[test]
fn host_memory_is_never_gpu_memory() {
    for log in [
        "slurmstepd-gpu07: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.\nsrun: error: gpu07: task 0: Out Of Memory\n",
        "RuntimeError: DataLoader worker (pid 17) is killed by signal: Killed.\nslurmstepd: error: Detected 1 oom-kill event(s) in step 4711.batch cgroup.\n",
        "ConnectionResetError: [Errno 104] Connection reset by peer\n[rank1]:[E302 06:24:44.9 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: x\nslurmstepd: error: Detected 1 oom_kill event in StepId=4711.0.\n",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n",
    ] {
        let incident = verdict(log);
        assert_eq!(
            (
                incident.kind.as_str(),
                incident.is_host_oom,
                incident.is_gpu_oom
            ),
            ("host_oom", Tri::True, Tri::False),
            "{log}"
        );
    }
    let killed = verdict("line 31: 48151 Killed                  python3 train.py\n");
    assert_eq!(
        (killed.kind.as_str(), killed.is_host_oom),
        ("host_oom", Tri::Ambiguous)
    );
}

#[test]
fn what_slurm_says_is_joined_with_the_text() {
    let clean = scan(&[("o", "step:1 - loss:2\n")]);
    let by = |scanner: &Scanner, job: &JobStatus| {
        let incident = scanner.verdict(Some(job));
        assert!(
            incident.evidence.iter().any(|e| e.signature == "scheduler"),
            "{incident:?}"
        );
        (incident.kind.clone(), incident.is_host_oom, incident.fatal)
    };
    let kind = |name: &str| (name.to_owned(), Tri::False, true);
    let host = |certain| ("host_oom".to_owned(), certain, true);
    for (state, code, signal, expected) in [
        (JobState::Timeout, 0, 0, kind("time_limit")),
        (JobState::NodeFail, 0, 0, kind("node_failure")),
        (JobState::Preempted, 0, 0, kind("preempted")),
        (JobState::Cancelled, 0, 0, kind("cancelled")),
        (JobState::Failed, 1, 0, kind("other")),
        (JobState::Failed, 0, 53, kind("config")),
        (JobState::OutOfMemory, 0, 125, host(Tri::True)),
        (JobState::Failed, 0, 125, host(Tri::True)),
        (JobState::Failed, 137, 0, host(Tri::Ambiguous)),
        (JobState::Failed, 9, 0, host(Tri::Ambiguous)),
        (JobState::Failed, 0, 9, host(Tri::Ambiguous)),
        (
            JobState::Completed,
            0,
            0,
            ("no_failure".to_owned(), Tri::False, false),
        ),
    ] {
        assert_eq!(
            by(&clean, &job(state.clone(), code, signal)),
            expected,
            "{state:?} {code}:{signal}"
        );
    }
    let step = JobStatus {
        step_out_of_memory: true,
        ..job(JobState::Completed, 0, 0)
    };
    assert_eq!(by(&clean, &step), host(Tri::True));

    let dead = scan(&[("e", &verl_actor_update())]);
    for state in [
        JobState::Failed,
        JobState::Timeout,
        JobState::Cancelled,
        JobState::Completed,
        JobState::OutOfMemory,
    ] {
        assert_eq!(
            by(&dead, &job(state.clone(), 1, 0)).0,
            "cuda_oom",
            "{state:?}"
        );
    }
    let killed = scan(&[("e", "Killed\n")]);
    assert_eq!(
        by(&killed, &job(JobState::OutOfMemory, 0, 125)),
        host(Tri::True)
    );
}

#[test]
fn a_restart_leaves_the_earlier_runs_unfinished_line_out() {
    let mut scanner = Scanner::new(&[]);
    let source = scanner.source("job.err");
    scanner.feed(source, 0, OOM.trim_end().as_bytes());
    scanner.restart(source);
    scanner.finish_source(source);
    assert_eq!(scanner.verdict(None).kind, "no_failure");
}

#[test]
fn a_restart_leaves_the_earlier_run_out() {
    let mut scanner = Scanner::new(&[]);
    let source = scanner.source("job.err");
    let first = verl_actor_update();
    scanner.feed(source, 0, first.as_bytes());
    assert!(scanner.digest().incident.is_some());
    scanner.restart(source);
    assert_eq!(scanner.digest().incident, None);
    let second = "step:1 - x:1\nRuntimeError: HIP out of memory. Tried to allocate 1.00 GiB.\n";
    scanner.feed(source, 0, second.as_bytes());
    let incident = scanner.verdict(None);
    assert_eq!(
        (incident.kind.as_str(), incident.evidence[0].line),
        ("hip_oom", 2)
    );
    assert!(incident.notes.iter().any(|n| n.contains("earlier run")));

    scanner.restart(source);
    let end = 5_000;
    scanner.feed(
        source,
        end,
        b"RuntimeError: HIP out of memory. Tried to allocate 1.00 GiB.\n",
    );
    assert_eq!(scanner.verdict(None).evidence[0].offset, end);
}

#[test]
fn bytes_that_were_fed_before_count_once() {
    let mut scanner = Scanner::new(&[]);
    let source = scanner.source("e");
    scanner.feed(source, 0, b"one\ntwo\n");
    scanner.feed(source, 4, b"two\nKilled\n");
    assert_eq!(scanner.digest().lines_seen, 3);
    assert_eq!(scanner.verdict(None).evidence[0].line, 3);
}

#[test]
fn how_many_steps_there_are_may_stand_in_the_other_log() {
    let bar = "Training Progress:  17%|█▋        | 1/6 [05:30<27:30, 330.1s/it]\n";
    let step = ("job.out", "step:2 - actor/pg_loss:0.012\n");
    let known = scan(&[("job.err", bar), step]).digest().progress;
    assert_eq!(known.map(|p| p.total), Some(Some(6)));
    let unknown = scan(&[step]).digest().progress;
    assert_eq!(unknown.map(|p| p.total), Some(None));
}

#[test]
fn a_digest_shows_progress_and_the_last_line_without_control_characters() {
    let mut scanner =
        Scanner::new(&[ProgressPattern::new(r"^fold (?P<step>\d+) of (?P<total>\d+)").unwrap()]);
    let source = scanner.source("e");
    scanner.feed(
        source,
        0,
        b"fold 3 of 9\n\x1b]0;title\x07\x1b[31mhot\x1b[0m\n\n",
    );
    let digest = scanner.digest();
    assert_eq!(digest.progress, Some(Progress::new(3, Some(9))));
    assert_eq!(digest.last_line, "hot");
    let oom = "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB.\n";
    scanner.feed(source, 38, oom.as_bytes());
    let before = scanner.digest().bytes_after_incident;
    scanner.feed(source, 38 + oom.len() as u64, b"0123456789\n");
    assert_eq!(scanner.digest().bytes_after_incident, before + 11);
    assert_eq!(scanner.digest().incident.unwrap().first_step, Some(false));
}

#[test]
fn the_step_behind_the_last_one_that_can_be_counted_is_not_known() {
    let text = format!("step:{} - loss:1\n", u64::MAX);
    assert_eq!(verdict(&text).step, None);
}

#[test]
fn hostile_bytes_and_giant_lines_hide_nothing() {
    let mut log = vec![b'x'; 300_000];
    log.extend_from_slice(OOM.as_bytes());
    log.extend_from_slice(&[b'y'; 200_000]);
    let mut scanner = Scanner::new(&[]);
    let source = scanner.source("e");
    scanner.feed(source, 0, &log);
    scanner.finish_source(source);
    let incident = scanner.verdict(None);
    assert_eq!(
        (incident.kind.as_str(), incident.device_index),
        ("cuda_oom", Some(1))
    );
    assert!(incident.evidence[0].text.chars().count() <= 1_000);

    let hidden = b"\xff\xfe\0\0 \x1b[2Jtorch.Out\0OfMemoryError: CUDA out\x1b[1m of memory\x1b[0m. Tried to allocate 1.00 GiB.\r\n";
    let source = scanner.source("f");
    scanner.feed(source, 0, hidden);
    let text = scanner
        .verdict(None)
        .evidence
        .iter()
        .find(|e| e.file == "f")
        .unwrap()
        .text
        .clone();
    assert!(text.contains("CUDA out of memory. Tried") && !text.chars().any(char::is_control));
}

/// Lines of which logs are made, for the property below.
fn scraps() -> Vec<String> {
    let mut scraps: Vec<String> = verl_actor_update()
        .split_inclusive('\n')
        .map(str::to_owned)
        .collect();
    scraps.extend([
        bar(3),
        bar(9),
        "\r\n".into(),
        "\u{1b}[31m".into(),
        "skipping batch\n".into(),
        "CUDA out of\nmemory. Tried to allocate 1.50 GiB\n".into(),
        "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0;\n".into(),
        "23.69 GiB total capacity; 256.00 MiB free;\n".into(),
        "z".repeat(20_000),
        "Killed\n".into(),
        "{'train_runtime': 6.1}\n".into(),
        "plain words\n".into(),
        "\0\0\0".into(),
    ]);
    scraps
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_split_gives_the_same_verdict(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..24),
    ) {
        let scraps = scraps();
        let bytes: Vec<u8> = picks.iter().flat_map(|i| i.get(&scraps).bytes()).collect();
        let mut at: Vec<usize> = cuts.iter().map(|i| i.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let feed = |parts: &mut dyn Iterator<Item = (usize, usize)>| {
            let mut scanner = Scanner::new(&[]);
            let source = scanner.source("e");
            for (from, to) in parts {
                scanner.feed(source, from as u64, &bytes[from..to]);
                let _ = scanner.digest();
            }
            scanner.finish_source(source);
            (scanner.verdict(None), scanner.digest())
        };
        let whole = feed(&mut [(0, bytes.len())].into_iter());
        let split = feed(&mut at.windows(2).map(|w| (w[0], w[1])));
        prop_assert_eq!(whole, split);
    }
}

/// More lines for [`scraps`]: dense progress of every pattern, announcements, gaps in messages.
pub(super) fn busy_scraps() -> Vec<String> {
    let mut scraps = scraps();
    for step in [0, 3, 7, 8, 9, 12, 100] {
        scraps.push(format!(
            "step:{step} - loss:1.5 - a/step:{step} - global_step:{step} - x\n"
        ));
        scraps.push(format!(
            "{TASK}Training Progress:   2%|▏         | {step}/105 [11:07<9:26, 330.1s/it]\r"
        ));
        scraps.push(format!("{TASK}step:{step} - loss:1.5\n"));
        scraps.extend(figures(step));
        scraps.push(format!("  4%|▍         | {step}/50 [00:00<?, ?it/s]\r"));
        scraps.push(format!(
            "  4%|▍         | {step}/50 [21:02<8:25:01, 631.29s/it]\r"
        ));
        scraps.push(format!(
            "[rank0]:   4%|▍    | {step}/50 [21:02<8:25:01, 631.29s/it]\n"
        ));
        scraps.push(format!(
            "Epoch 3:   6%|█   | {step}/5001 [6:28<9:17, 1.3it/s]\r"
        ));
        scraps.push(format!(
            " [2026-03-02 10:00:00] iteration       {step}/  120000 | elapsed | {step} | x\n"
        ));
        scraps.push(format!(" iteration       {step}/  120000 | elapsed\n"));
        scraps.push(format!(
            "Processed prompts:  30%|███   | {step}/256 [01:17<02:59, 1.87s/it]\r"
        ));
        scraps.push(format!("iter {step}: loss 2.1174, time 33.12ms\n"));
        scraps.push(format!(
            "1|{step}|Loss: 2.11:   6%|▌         | {step}/900 [01:23<22:10,  1.41s/it]\r"
        ));
        scraps.push(format!("st\u{1b}[1mep:{step} - loss\n"));
        scraps.push(format!("step:\u{1b}[1m{step}\u{1b}[0m - loss\n"));
    }
    scraps.extend(
        [
            "(WorkerDict pid=7) Capturing CUDA graph shapes:  34%|###  | 12/35 [00:01<00:03]\r",
            "INFO [core.py:58] Initializing a V1 LLM engine (v0.8.4) with config: model='m'\n",
            "Loading checkpoint shards:  50%|█████     | 2/4 [07:11<07:02, 211.3s/it]\r",
            "torch.Out\0OfMemoryError: CUDA o\u{1b}[1mut\u{1b}[0m of memory. Tried to allocate 1.00 GiB\n",
            "Kil\0\0led\n",
            "\u{1b}[31mKilled\u{1b}[0m\n",
            "slurmstepd: error: Detected 1 oom_k^[[1mill event in StepId=4711.0.\n",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0.\n",
            "train.py:12: in main\n    loss.backward()\n",
            "E   ValueError: x\n",
            "WARNING: caught OOM: CUDA out of memory. Tried to allocate 1.00 GiB, retrying with batch size 4\n",
            "{\"text\": \"it says 'CUDA out of memory' here\"}\n",
            "\u{1b}]0;title\u{7}plain\n",
            "ends with an escape \u{1b}",
            "\n\n",
            " ",
        ]
        .map(String::from),
    );
    scraps.push(format!(
        "{}Killed by{}\n",
        "\0".repeat(200),
        "y".repeat(300)
    ));
    scraps.push(format!(
        "{}{OOM}{}\n",
        "x".repeat(17_000),
        "step:4 - y".repeat(2_000)
    ));
    scraps
}

/// Lines with figures: behind their step, in a dictionary, before their step and beside a failure.
fn figures(step: u32) -> [String; 3] {
    [
        format!(
            "{TASK}step:{step} - perf/max_memory_allocated_gb:4{step}.5 - response_length/mean:np.float64(4{step}.0)\n"
        ),
        format!("{{'loss': 0.0, 'completions/mean_length': 2{step}.5, 'epoch': 0.1}}\n"),
        format!(
            "{OOM} - perf/cpu_memory_used_gb:1{step}.0 - timing_s/step:{step}.5 - step:{step} - x\n"
        ),
    ]
}

const TASK: &str = "\u{1b}[36m(TaskRunner pid=900)\u{1b}[0m ";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn the_fast_way_says_what_reading_every_line_says(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        files in 1_usize..3,
    ) {
        let scraps = busy_scraps();
        let bytes: Vec<u8> = picks.iter().flat_map(|i| i.get(&scraps).bytes()).collect();
        let mut at: Vec<usize> = cuts.iter().map(|i| i.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let said = |naive: bool| {
            let mut scanner = Scanner::new(&[]);
            scanner.naive = naive;
            let sources: Vec<_> = (0..files).map(|n| scanner.source(&n.to_string())).collect();
            for source in &sources {
                for cut in at.windows(2) {
                    scanner.feed(*source, cut[0] as u64, &bytes[cut[0]..cut[1]]);
                }
            }
            for source in sources {
                scanner.finish_source(source);
            }
            let records = scanner.records().cloned();
            (scanner.verdict(None), scanner.digest(), records)
        };
        prop_assert_eq!(said(false), said(true));
    }
}

#[test]
fn an_end_that_nothing_explains_is_told_with_its_exit_code_and_its_last_lines() {
    let lines: Vec<String> = (1..=14)
        .map(|i| format!("\u{1b}[1mline {i}\u{1b}[0m\u{7}\n"))
        .collect();
    let scanner = scan(&[("slurm.err", &lines.concat()), ("slurm.out", "")]);
    let incident = scanner.verdict(Some(&job(JobState::Failed, 3, 0)));
    assert_eq!(
        incident.headline(),
        "the job failed; its log does not say why (exit 3:0)"
    );
    let last: Vec<String> = (5..=14).map(|i| format!("line {i}")).collect();
    assert_eq!(incident.last_lines, last);
    let well = scanner.verdict(Some(&job(JobState::Completed, 0, 0)));
    assert_eq!((well.exit, well.last_lines.len()), (None, 0));
    let known = scan(&[("slurm.err", OOM)]).verdict(Some(&job(JobState::Failed, 1, 0)));
    assert_eq!((known.exit, known.last_lines.len()), (None, 0));
}
