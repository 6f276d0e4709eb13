//! A log as verl's driver writes it through Ray, of any size, the same for the same seed.
//!
//! Written for this benchmark in the formats of verl 0.4 to 0.9, Ray 2.x, vLLM 0.8 to 0.13, tqdm: most
//! lines carry Ray's coloured prefix, most bytes are sampled prompts and responses, bars are redrawn
//! with carriage returns, metrics stand in one long line a step.

use std::io::{self, Write};

use oomctl_base::word_list;

/// What is planted into the noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// A CUDA OOM in the actor's update, 64 KiB before the end.
    Oom,
    /// The same at 2 %, and workers that talk on behind it.
    Early,
    /// Nothing.
    Clean,
    /// 10,000 lines of rollout text that quote failures.
    NearMiss,
    /// One line of 240 MB in which a bar is redrawn; the rest as `Oom`.
    Giant,
}

impl Variant {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 5] = [
        Self::Oom,
        Self::Early,
        Self::Clean,
        Self::NearMiss,
        Self::Giant,
    ];

    /// Name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Oom => "oom",
            Self::Early => "early",
            Self::Clean => "clean",
            Self::NearMiss => "nearmiss",
            Self::Giant => "giant",
        }
    }

    /// What must be found.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Oom | Self::Early | Self::Giant => "cuda_oom",
            Self::Clean | Self::NearMiss => "no_failure",
        }
    }
}

/// Near misses in a file of a GB; fewer in a smaller one.
const NEAR_MISSES_PER_GB: usize = 10_000;

/// Bytes of the giant line in a file of a GB.
const GIANT_SHARE: f64 = 0.24;

const TASK: &str = "\u{1b}[36m(TaskRunner pid=35137)\u{1b}[0m ";

const OOM: &str = "\
Error executing job with overrides: ['data.train_batch_size=1024', 'actor_rollout_ref.rollout.gpu_memory_utilization=0.6']
Traceback (most recent call last):
  File \"/opt/verl/verl/trainer/main_ppo.py\", line 64, in main
    run_ppo(config)
  File \"/opt/verl/verl/trainer/ppo/ray_trainer.py\", line 1010, in fit
    actor_output = self.actor_rollout_wg.update_actor(batch)
ray.exceptions.RayTaskError(OutOfMemoryError): \u{1b}[36mray::WorkerDict.actor_rollout_update_actor()\u{1b}[39m (pid=4321, ip=192.0.2.7, actor_id=0f, repr=<verl.single_controller.ray.base.WorkerDict object at 0x7f>)
  File \"/opt/verl/verl/workers/actor/dp_actor.py\", line 498, in update_policy
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.18 GiB of which 1.10 GiB is free. Including non-PyTorch memory, this process has 78.07 GiB memory in use. Of the allocated memory 70.11 GiB is allocated by PyTorch, and 6.02 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.
";

/// Rollout text that quotes failures, as a code assistant that is trained writes it.
const QUOTES: [&str; 9] = [
    "The job printed \"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\" and stopped, so halve the batch.",
    "If you see `torch.cuda.OutOfMemoryError` in the log, lower gpu_memory_utilization first and try again.",
    "Slurm writes 'slurmstepd: error: Detected 1 oom-kill event(s)' when the cgroup limit of the job is reached.",
    "vLLM raises ValueError: No available memory for the cache blocks. when the KV cache does not fit at start.",
    "A worker that got \"DataLoader worker (pid 17) is killed by signal: Killed\" had no more host memory left.",
    "Write `except RuntimeError as e: if 'CUDA out of memory' in str(e): torch.cuda.empty_cache()` around the step.",
    "The message OSError: [Errno 28] No space left on device tells that the checkpoint folder is full, nothing else.",
    "A run may print [Errno 12] Cannot allocate memory from fork when the limit of the address space is set too low.",
    "Lightning says that batch size 64 failed, trying batch size 32, and goes on; nothing is lost in that case.",
];

const SENTENCES: [&str; 24] = [
    "First, we need to find the total number of eggs that the ducks lay in one day.",
    "Let x be the number of apples that remain after Maria gives some of them to her brother.",
    "She sells the remainder at the farmers' market daily for $2 per fresh duck egg.",
    "So the area of the triangle is \\frac{1}{2} \\cdot 12 \\cdot 5 = 30 square units.",
    "Therefore, the answer is \\boxed{42}, because the two trains meet after three hours.",
    "Wait, I should check this again: the discount applies only to the second item, not to both.",
    "Step 3: Substitute the value back into the original equation and simplify both sides.",
    "The function returns a list of tuples, each of which holds a key and the count of its values.",
    "def solve(n):\\n    total = 0\\n    for i in range(n):\\n        total += i * i\\n    return total",
    "However, since each bus carries at most 45 students, they will need seven buses in all.",
    "Adding the three numbers gives 17 + 25 + 38 = 80, and 80 divided by 4 is 20.",
    "Expected value: the sum of each outcome multiplied by its probability, here 3.5 per roll.",
    "Example 2: if the width is doubled while the length stays the same, the perimeter grows by 2w.",
    "The remaining distance is 240 - 3 * 55 = 75 miles, which takes about 1.36 hours.",
    "Finally, convert minutes to hours: 150 minutes are 2.5 hours, so the speed is 40 mph.",
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"unit\": \"celsius\"}}",
    "Note that the sequence is geometric with ratio 3, hence a_5 = 2 * 3^4 = 162.",
    "\u{56e0}\u{6b64}\u{ff0c}\u{7b54}\u{6848}\u{662f} 18 \u{5143}\u{3002}\u{6211}\u{4eec}\u{518d}\u{68c0}\u{67e5}\u{4e00}\u{904d}\u{8ba1}\u{7b97}\u{3002}",
    "The probability that both marbles are red is (4/10) * (3/9) = 2/15, about 13.3 percent.",
    "In other words, the memory of the machine holds the table, and each lookup takes constant time.",
    "By the Pythagorean theorem the hypotenuse is sqrt(9^2 + 12^2) = sqrt(225) = 15 cm.",
    "He spends 20% of his salary on rent, 30% on food, and saves one third of what is left.",
    "Each side of the equation must be divided by 7 | so that the coefficient of y becomes 1.",
    "There were 16 students at first, and half of them left early for the soccer practice.",
];

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[usize::try_from(self.below(texts.len() as u64)).unwrap_or(0)]
    }
}

/// Writes a log and counts its bytes.
struct Log<W> {
    out: W,
    written: usize,
    random: Random,
    step: u64,
    /// Training prints no steps any more: the actor is dead.
    hanging: bool,
}

/// Writes `bytes` bytes of a log, about.
pub fn write(out: impl Write, variant: Variant, bytes: usize, seed: u64) -> io::Result<()> {
    let random = Random(seed);
    let mut log = Log {
        out,
        written: 0,
        random,
        step: 0,
        hanging: false,
    };
    match variant {
        Variant::Clean => log.fill(bytes)?,
        Variant::Oom => log.dies(bytes)?,
        Variant::Early => {
            log.fill(bytes / 50)?;
            log.say(OOM)?;
            log.hanging = true;
            log.fill(bytes)?;
        }
        Variant::NearMiss => {
            let misses = (bytes / 1_000 * NEAR_MISSES_PER_GB / 1_000_000).max(1);
            for n in 1..=misses {
                log.fill(bytes / misses * n)?;
                let quote = log.random.pick(&QUOTES);
                log.say(&format!("{TASK}[response] {quote}\n"))?;
            }
            // Training goes on behind the last of them.
            for _ in 0..3 {
                log.metrics()?;
            }
        }
        Variant::Giant => {
            log.fill(bytes / 3)?;
            let giant = (bytes as f64 * GIANT_SHARE) as usize;
            let end = log.written + giant;
            while log.written < end {
                log.bar(100_000)?;
            }
            log.say("\n")?;
            log.dies(bytes)?;
        }
    }
    log.out.flush()
}

impl<W: Write> Log<W> {
    fn say(&mut self, text: &str) -> io::Result<()> {
        self.written += text.len();
        self.out.write_all(text.as_bytes())
    }

    fn dies(&mut self, bytes: usize) -> io::Result<()> {
        self.fill(bytes.saturating_sub(64 << 10))?;
        self.say(OOM)?;
        self.hanging = true;
        self.fill(bytes)
    }

    fn fill(&mut self, until: usize) -> io::Result<()> {
        while self.written < until {
            match self.random.below(100) {
                0..60 => self.rollout()?,
                60..85 => self.worker()?,
                85..90 => self.engine_bar()?,
                90..96 => self.warning()?,
                _ if self.hanging => self.worker()?,
                96..98 => self.metrics()?,
                _ => self.bar(105)?,
            }
        }
        Ok(())
    }

    fn rollout(&mut self) -> io::Result<()> {
        for part in ["[prompt]", "[response]"] {
            let mut line = format!("{TASK}{part}");
            for _ in 0..1 + self.random.below(5) {
                line.push(' ');
                line.push_str(self.random.pick(&SENTENCES));
            }
            line.push('\n');
            self.say(&line)?;
        }
        let (answer, score) = (self.random.below(1000), self.random.below(2));
        self.say(&format!(
            "{TASK}[ground_truth] {answer}\n{TASK}[score] {score}.0\n"
        ))
    }

    fn worker(&mut self) -> io::Result<()> {
        let (pid, used) = (4_321 + self.random.below(8), self.random.below(7_000));
        let text = match self.random.below(4) {
            0 => format!(
                "INFO:2026-03-02 10:12:44,{:03}:Before update policy, memory allocated (GB): {}.{:02}, memory reserved (GB): 61.25, device memory used/total (GB): 70.31/79.18",
                used % 1000,
                used / 100,
                used % 100
            ),
            1 => format!(
                "INFO 03-02 10:13:{:02} [gpu_worker.py:298] Memory profiling takes {}.{:02} seconds",
                used % 60,
                used % 9,
                used % 100
            ),
            2 => format!(
                "INFO 03-02 10:13:{:02} [loggers.py:116] Engine 000: Avg prompt throughput: {used}.1 tokens/s, Running: 77 reqs, Waiting: 0 reqs, GPU KV cache usage: 41.2%",
                used % 60
            ),
            _ => format!(
                "gpu07:{pid}:4790 [{}] NCCL INFO Channel 0{}/0 : 3[3] -> 4[4] via P2P/CUMEM/read",
                used % 8,
                used % 10
            ),
        };
        self.say(&format!(
            "\u{1b}[36m(WorkerDict pid={pid})\u{1b}[0m {text}\n"
        ))
    }

    fn engine_bar(&mut self) -> io::Result<()> {
        let done = self.random.below(256);
        for n in done..(done + 4).min(256) {
            let percent = n * 100 / 256;
            let text = format!(
                "\u{1b}[36m(WorkerDict pid=4321)\u{1b}[0m Processed prompts: {percent:>3}%|{:<10}| {n}/256 [01:17<02:59,  1.87s/it, est. speed input: 120.33 toks/s, output: 2300.21 toks/s]\r",
                "#".repeat(usize::try_from(percent / 10).unwrap_or(0))
            );
            self.say(&text)?;
        }
        self.say("\n")
    }

    fn warning(&mut self) -> io::Result<()> {
        let text = self.random.pick(&[
            "/opt/env/lib/python3.11/site-packages/torch/distributed/fsdp/fully_sharded_data_parallel.py:690: FutureWarning: FSDP.state_dict_type() and FSDP.set_state_dict_type() are being deprecated. Please use APIs, get_state_dict() and set_state_dict(), which can support different parallelisms.",
            "/opt/env/lib/python3.11/site-packages/torch/utils/checkpoint.py:87: UserWarning: None of the inputs have requires_grad=True. Gradients will be None",
            "WARNING 03-02 10:13:05 [sampling_params.py:347] temperature 0.001 is less than 0.01, which may cause numerical instability.",
            "Token indices sequence length is longer than the specified maximum sequence length for this model (1184 > 1024).",
        ]);
        self.say(&format!(
            "\u{1b}[36m(WorkerDict pid=4325)\u{1b}[0m {text} [repeated 7x across cluster]\n"
        ))
    }

    fn bar(&mut self, total: u64) -> io::Result<()> {
        self.step += u64::from(total > 1000);
        let step = self.step.min(total);
        let percent = step * 100 / total;
        let blocks = usize::try_from(percent / 10).unwrap_or(0);
        let text = format!(
            "{TASK}Training Progress: {percent:>3}%|{}{}| {step}/{total} [11:07<9:26:40, 330.15s/it]\r",
            "\u{2588}".repeat(blocks),
            " ".repeat(10 - blocks)
        );
        self.say(&text)
    }

    fn metrics(&mut self) -> io::Result<()> {
        const NAMES: [&str; 20] = word_list(
            "global_seqlen/mean actor/entropy actor/pg_loss actor/pg_clipfrac actor/ppo_kl
             actor/grad_norm perf/mfu/actor perf/max_memory_allocated_gb
             perf/max_memory_reserved_gb perf/cpu_memory_used_gb critic/score/mean
             critic/rewards/mean critic/advantages/max response_length/mean
             response_length/clip_ratio prompt_length/mean timing_s/gen timing_s/step
             timing_per_token_ms/gen perf/throughput",
        );
        self.step += 1;
        let mut line = format!("{TASK}step:{}", self.step);
        for name in NAMES.iter().cycle().take(60) {
            let value = self.random.below(1_000_000);
            line.push_str(&format!(" - {name}:{}.{:06}", value % 500, value));
        }
        line.push('\n');
        self.say(&line)
    }
}
