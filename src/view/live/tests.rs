//! Screens as they are drawn, and what keys do to them.

use jiff::Timestamp;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::keys::KeyPress;
use super::model::{Board, RunCard};
use super::painter::TerminalFeatures;
use super::scene::Scene;
use super::screen::draw;
use super::state::{AttemptFiles, Mode, Rows, ScreenRequest, ScreenState};
use super::text::{LogPosition, LogText};
use crate::core::engine::{Fact, History, Record, Verdict};
use crate::core::ladder::{Change, Step};
use crate::core::recipe::{Layer, LayerKind};
use crate::core::report::Tracks;
use crate::drive::{Notice, RunFolder};
use oomctl_base::job::{JobId, JobRef, JobState, JobStatus, Token};
use oomctl_base::units::{Bytes, GIB};
use oomctl_base::{Effect, Value};
use oomctl_diagnose::{Class, Evidence, EvidenceRole, Incident, Progress};
use oomctl_gpu::{GpuReading, GpuSample, SampleLine};

const COLOURS: TerminalFeatures = TerminalFeatures {
    unicode: true,
    colour: true,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// The facts of a run, each at its second.
fn history(run: &str, facts: Vec<(i64, Fact)>) -> History {
    let created = Fact::Created {
        run: run.to_owned(),
        version: "0.1.0".to_owned(),
    };
    let facts = [(0, created)].into_iter().chain(facts);
    let records = facts
        .zip(1..)
        .map(|((second, fact), seq)| record(seq, second, fact));
    History::replay(&records.collect::<Vec<_>>())
}

fn record(seq: u64, second: i64, fact: Fact) -> Record {
    Record::new(seq, at(second), 1, fact)
}

/// A job of an attempt that began at a second and stands so.
fn submitted(attempt: u32, job: &str, second: i64, state: JobState) -> Vec<(i64, Fact)> {
    let intended = Fact::Intended {
        attempt,
        token: Token(format!("oomctl-grpo-7b-{attempt}-0badcafe")),
        script: "job.sbatch".to_owned(),
        script_sha256: String::new(),
        gpus: 4,
        rungs: Vec::new(),
        outputs: Vec::new(),
    };
    let job = JobRef::foreign(job, at(second));
    let status = JobStatus {
        started: Some(at(second)),
        nodes: vec!["gpu-a12".to_owned()],
        ..JobStatus::bare(job.id.clone(), state)
    };
    let accepted = Fact::Submitted {
        attempt,
        job,
        adopted: false,
    };
    let seen = Fact::StateSeen { attempt, status };
    [intended, accepted, seen].map(|fact| (second, fact)).into()
}

/// The same, ended by an out-of-memory, with a rung that answers it.
fn failed(attempt: u32, job: &str, second: i64, rung: (&str, i64, i64)) -> Vec<(i64, Fact)> {
    let mut facts = submitted(attempt, job, second, JobState::Failed);
    let incident = Incident {
        phase: "actor_update".to_owned(),
        device_index: Some(3),
        requested_bytes: Some(gib(18.19)),
        free_bytes: Some(gib(5.63)),
        total_bytes: Some(gib(79.18)),
        evidence: vec![Evidence {
            signature: "torch_cuda_oom".to_owned(),
            role: EvidenceRole::Root,
            file: "slurm.err".to_owned(),
            line: 3,
            offset: 48,
            text: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.19 GiB."
                .to_owned(),
        }],
        ..Incident::bare("cuda_oom", Class::GpuOom)
    };
    let (name, from, to) = rung;
    let step = Step {
        rung: name.to_owned(),
        title: "weave half as many".to_owned(),
        changes: vec![Change {
            knob: "micro_batch".to_owned(),
            from: Value::Int(from),
            to: Value::Int(to),
            effect: Effect::SameMath,
            called: None,
        }],
        effect: Effect::SameMath,
        notes: Vec::new(),
        reshards: false,
        layer: Layer::new(LayerKind::Rung),
    };
    let end = second + 432;
    let ended = Fact::Ended {
        attempt,
        status: Some(JobStatus::bare(JobId(job.to_owned()), JobState::Failed)),
        gpu_seconds: 1_728.0,
    };
    let diagnosed = Fact::Diagnosed {
        attempt,
        incident: Box::new(incident),
        progress: None,
    };
    let decided = Fact::Decided {
        attempt,
        verdict: Box::new(Verdict::Climb {
            steps: vec![step],
            skipped: Vec::new(),
            expects: None,
            withdrawn: None,
        }),
    };
    facts.extend([ended, diagnosed, decided].map(|fact| (end, fact)));
    facts
}

fn gib(gib: f64) -> Bytes {
    let bytes = (gib * GIB) as u64;
    Bytes(bytes)
}

fn folder(run: &str) -> RunFolder {
    RunFolder::of(std::path::Path::new("/project/.oomctl/runs"), run).unwrap()
}

fn card(run: &str, facts: Vec<(i64, Fact)>) -> RunCard {
    RunCard::new(history(run, facts), folder(run))
}

/// A run that failed twice and trains now.
fn third_attempt() -> Board {
    let mut facts = failed(1, "4711", 10, ("halve-batches", 8, 4));
    facts.extend(failed(2, "4719", 500, ("offload", 4, 4)));
    facts.extend(submitted(3, "4725", 1_000, JobState::Running));
    let mut board = Board::with(vec![card("grpo-7b", facts)]);
    for (step, second) in [(35, 3_290), (36, 3_300), (38, 3_420)] {
        let progress = Progress::new(step, Some(105));
        let notice = Notice::Progress {
            run: "grpo-7b",
            progress: &progress,
        };
        board.take(&notice, at(second));
    }
    board
}

/// Two GPUs that fill up.
fn tracks() -> Vec<crate::core::report::GpuTrack> {
    let mut tracks = Tracks::default();
    let course = [4.0, 22.0, 45.0, 61.0, 71.3, 52.0, 68.0, 71.0, 50.0, 69.5];
    for (step, used) in course.into_iter().enumerate() {
        let second = 1_000 + i64::try_from(step).unwrap() * 240;
        let gpu = |gpu: u32, used: f64| GpuSample {
            reading: GpuReading {
                gpu,
                uuid: format!("GPU-{gpu}"),
                name: "H100".to_owned(),
                total_bytes: gib(79.6),
                used_bytes: gib(used),
                own_bytes: None,
                pid: None,
                utilization_percent: None,
            },
            peak_bytes: gib(used),
            own_peak_bytes: None,
            utilization_looks: 0,
            utilization_sum_percent: 0,
        };
        let sample = SampleLine {
            v: 1,
            at: at(second),
            gpus: vec![gpu(0, used), gpu(1, used * 0.6)],
        };
        tracks.take("gpu-a12", &sample);
    }
    tracks.sorted()
}

fn shown(log: &str) -> AttemptFiles {
    AttemptFiles {
        logs: vec!["slurm.err".to_owned(), "slurm.out".to_owned()],
        log: 0,
        text: LogText::new(log.as_bytes(), 0, log.len() as u64),
        tracks: tracks(),
    }
}

const LOG: &str = "\
(TaskRunner pid=901) step:34 - actor/loss:0.021 - perf/time_per_step:61.2
(TaskRunner pid=901) step:35 - actor/loss:0.019 - perf/time_per_step:60.7
(TaskRunner pid=901) step:36 - actor/loss:0.020 - perf/time_per_step:60.9
(TaskRunner pid=901) step:37 - actor/loss:0.018 - perf/time_per_step:60.4
(TaskRunner pid=901) step:38 - actor/loss:0.017 - perf/time_per_step:60.5
";

/// The screen as lines.
fn lines(buffer: &Buffer) -> String {
    let rows = buffer.area.height;
    let cell = |x, y| buffer.cell((x, y)).map_or(" ", |c| c.symbol());
    let row = |y| {
        let cells = (0..buffer.area.width).map(|x| cell(x, y));
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..rows).map(row).collect()
}

fn drawn(
    size: (u16, u16),
    look: TerminalFeatures,
    board: &Board,
    state: &ScreenState,
    shown: &AttemptFiles,
) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    let scene = Scene {
        board,
        state,
        shown,
        now: at(3_430),
    };
    draw(&mut buffer, look, scene);
    buffer
}

fn screen(size: (u16, u16), board: &Board, state: &ScreenState, shown: &AttemptFiles) -> String {
    lines(&drawn(size, COLOURS, board, state, shown))
}

#[test]
fn the_screen_in_the_documentation_is_the_one_that_is_drawn() {
    let page = include_str!("../../../docs/watch.md");
    let screen = screen(
        (80, 24),
        &third_attempt(),
        &ScreenState::default(),
        &shown(LOG),
    );
    let block = page
        .split("```text\n")
        .nth(1)
        .and_then(|t| t.split("```").next());
    assert_eq!(
        block,
        Some(screen.as_str()),
        "docs/watch.md should show\n{screen}"
    );
}

#[test]
fn the_help_names_the_keys_of_the_page() {
    let page = include_str!("../../../docs/watch.md");
    for (keys, does) in super::help::LINES {
        let row = format!("| {keys} | {does} |");
        assert!(page.contains(&row), "docs/watch.md lacks: {row}");
    }
    let state = ScreenState {
        mode: Mode::Help,
        ..ScreenState::default()
    };
    insta::assert_snapshot!(screen((80, 24), &third_attempt(), &state, &shown(LOG)));
}

#[test]
fn a_wide_screen_has_memory_beside_the_attempts() {
    let screen = screen(
        (160, 30),
        &third_attempt(),
        &ScreenState::default(),
        &shown(LOG),
    );
    insta::assert_snapshot!(screen);
}

#[test]
fn ascii_alone_and_no_colours_are_enough() {
    let plain = TerminalFeatures {
        unicode: false,
        colour: false,
    };
    let state = ScreenState {
        attempt: Some(1),
        ..ScreenState::default()
    };
    let log = shown("Löß 日本語\n   in weave\nxx: torch.OutOfMemoryError: CUDA out of memory\n");
    let buffer = drawn((80, 24), plain, &third_attempt(), &state, &log);
    let text = lines(&buffer);
    assert!(text.is_ascii(), "{text}");
    let coloured = buffer
        .content()
        .iter()
        .filter(|c| c.fg != ratatui::style::Color::Reset);
    assert_eq!(coloured.count(), 0);
    insta::assert_snapshot!(text);
}

#[test]
fn the_line_of_evidence_stands_out_also_without_colours() {
    let log = "first\nsecond\nthird\n".to_owned() + &"x".repeat(28) + "\n";
    let evidence = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.19 GiB.";
    let shown = shown(&format!("{log}{evidence}\nlast\n"));
    assert_eq!(shown.text.lines[4].offset, 48);
    let state = ScreenState {
        attempt: Some(1),
        large: true,
        ..ScreenState::default()
    };
    let look = TerminalFeatures {
        unicode: true,
        colour: false,
    };
    let buffer = drawn((80, 24), look, &third_attempt(), &state, &shown);
    let underlined = |y: u16| {
        let cell = buffer.cell((0, y)).unwrap();
        cell.modifier.contains(ratatui::style::Modifier::UNDERLINED)
    };
    let rows: Vec<u16> = (0..24).filter(|y| underlined(*y)).collect();
    assert_eq!(rows.len(), 1);
    assert!(
        lines(&buffer)
            .lines()
            .nth(rows[0].into())
            .unwrap()
            .starts_with("torch.Out")
    );
}

#[test]
fn every_size_is_drawn_and_nothing_leaves_its_place() {
    let board = many(30);
    for (width, height) in [
        (0, 0),
        (1, 1),
        (39, 10),
        (40, 9),
        (40, 10),
        (80, 24),
        (200, 50),
        (500, 200),
    ] {
        for large in [false, true] {
            let state = ScreenState {
                large,
                mode: Mode::Help,
                ..ScreenState::default()
            };
            drawn(
                (width, height),
                COLOURS,
                &board,
                &state,
                &shown("日本語 wide\n"),
            );
        }
    }
    // The same buffer in the backend of the library, which refuses what does not fit.
    let mut backend = TestBackend::new(80, 24);
    let buffer = drawn(
        (80, 24),
        COLOURS,
        &board,
        &ScreenState::default(),
        &shown(LOG),
    );
    let empty = Buffer::empty(buffer.area);
    let cells = empty.diff(&buffer).into_iter();
    ratatui::backend::Backend::draw(&mut backend, cells).unwrap();
    backend.assert_buffer(&buffer);
}

/// So many runs, the first of which has failed.
fn many(count: usize) -> Board {
    let cards = (0..count).map(|n| {
        let name = format!("sweep.{n:05}");
        match n {
            0 => card(&name, failed(1, "1", 10, ("thin", 8, 4))),
            _ => card(&name, submitted(1, &n.to_string(), 10, JobState::Running)),
        }
    });
    Board::with(cards.collect())
}

/// Presses keys one after the other, on a screen of 80x24.
fn press(state: &mut ScreenState, board: &Board, keys: &[KeyPress]) -> Vec<ScreenRequest> {
    let (shown, mut wishes) = (shown(LOG), Vec::new());
    let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 24));
    for key in keys {
        let scene = Scene {
            board,
            state,
            shown: &shown,
            now: at(3_430),
        };
        let rows: Rows = draw(&mut buffer, COLOURS, scene);
        wishes.extend(state.press(*key, board, &shown, rows));
    }
    wishes
}

#[test]
fn ten_thousand_runs_are_a_list_of_which_a_window_is_drawn() {
    let board = many(10_000);
    let mut state = ScreenState::default();
    press(
        &mut state,
        &board,
        &[KeyPress::PageDown, KeyPress::PageDown, KeyPress::Down],
    );
    assert_eq!(state.run.as_deref(), Some("sweep.00009"));
    press(&mut state, &board, &[KeyPress::End]);
    assert_eq!(state.run.as_deref(), Some("sweep.09999"));
    insta::assert_snapshot!(screen((80, 24), &board, &state, &shown(LOG)));
}

#[test]
fn a_filter_chooses_by_name_and_state_and_escape_shows_all_again() {
    let board = many(200);
    let mut state = ScreenState::default();
    let typed = |text: &str| text.chars().map(KeyPress::Char).collect::<Vec<_>>();
    let keys = [typed("f0012"), vec![KeyPress::Backspace, KeyPress::Enter]].concat();
    press(&mut state, &board, &keys);
    assert_eq!(state.listed(&board).len(), 111);
    press(&mut state, &board, &[KeyPress::Escape]);
    assert_eq!(state.listed(&board).len(), 200);
    state.filter = "submitting".to_owned();
    assert_eq!(state.listed(&board).len(), 1);
    assert_eq!(state.card(&board).map(RunCard::name), Some("sweep.00000"));
    state.filter = "nothing of the kind".to_owned();
    assert!(screen((80, 24), &board, &state, &shown(LOG)).contains("none"));
}

#[test]
fn nothing_is_ended_unless_it_was_agreed_to() {
    let board = third_attempt();
    let mut state = ScreenState::default();
    assert_eq!(
        press(&mut state, &board, &[KeyPress::Char('c'), KeyPress::Enter]),
        []
    );
    assert_eq!(
        press(
            &mut state,
            &board,
            &[KeyPress::Char('c'), KeyPress::Char('n')]
        ),
        []
    );
    let wishes = press(
        &mut state,
        &board,
        &[KeyPress::Char('c'), KeyPress::Char('y')],
    );
    assert!(
        matches!(wishes.as_slice(), [ScreenRequest::Do(_)]),
        "{wishes:?}"
    );
    assert_eq!(state.mode, Mode::Commands);
    // Whatever else is going on, this goes away at once.
    for before in [
        KeyPress::Char('?'),
        KeyPress::Char('/'),
        KeyPress::Char('c'),
    ] {
        let wishes = press(&mut state, &board, &[before, KeyPress::Interrupt]);
        assert_eq!(wishes, [ScreenRequest::Detach]);
    }
}

#[test]
fn what_is_asked_or_told_is_read_in_whole_on_the_smallest_screen() {
    let board = third_attempt();
    let mut state = ScreenState::default();
    let last_rows = |state: &ScreenState| {
        let screen = screen((40, 10), &board, state, &shown(LOG));
        let rows: Vec<&str> = screen.lines().skip(6).map(str::trim).collect();
        (rows.join(" "), rows.concat())
    };
    press(&mut state, &board, &[KeyPress::Char('c')]);
    let (words, _) = last_rows(&state);
    assert!(words.contains("End grpo-7b and its job 4725?"), "{words}");
    press(&mut state, &board, &[KeyPress::Char('n')]);
    let path = "/lustre/projects/llm/grpo/.oomctl/runs/grpo-7b/report.html";
    state.told = Some(format!("the report is {path}"));
    let (words, path_alone) = last_rows(&state);
    assert!(path_alone.contains(path), "{words}");
    state.told = Some("word ".repeat(100));
    assert!(last_rows(&state).0.ends_with('…'));
}

#[test]
fn what_was_said_of_an_attempt_is_not_said_of_the_next() {
    let mut board = third_attempt();
    let attempt = board.cards()[0].history.attempt().unwrap().clone();
    let status = JobStatus {
        reason: Some("NonZeroExitCode".to_owned()),
        ..JobStatus::bare(JobId("4725".to_owned()), JobState::Failed)
    };
    let said = Notice::Status {
        run: "grpo-7b",
        attempt: &attempt,
        status: &status,
    };
    board.take(&said, at(3_425));
    let fatal = Notice::Fatal {
        run: "grpo-7b",
        class: Class::GpuOom,
    };
    board.take(&fatal, at(3_425));
    for (seq, (second, fact)) in (90..).zip(submitted(4, "4730", 3_426, JobState::Pending)) {
        let record = record(seq, second, fact);
        let notice = Notice::Fact {
            run: "grpo-7b",
            record: &record,
        };
        board.take(&notice, at(second));
    }
    let screen = screen((80, 24), &board, &ScreenState::default(), &shown(LOG));
    let row = screen.lines().find(|l| l.contains("4730")).unwrap();
    assert!(row.contains("PENDING") && !row.contains("NonZero"), "{row}");
    assert!(!screen.contains("waiting for the job to end"), "{screen}");
}

#[test]
fn the_next_rung_is_told_before_it_is_asked_for() {
    let mut board = third_attempt();
    let mut state = ScreenState::default();
    let wishes = press(&mut state, &board, &[KeyPress::Char('e')]);
    assert_eq!(wishes, [ScreenRequest::LookAhead("grpo-7b".to_owned())]);
    let Some(Verdict::Climb { steps, .. }) = &board.cards()[0].history.attempts[0].verdict.clone()
    else {
        panic!("the first attempt climbed");
    };
    for (next, words) in [
        (
            Ok(steps.as_slice()),
            "End attempt 3 for halve-batches (micro_batch 8 → 4)?",
        ),
        (Err("no rung is left"), "grpo-7b: no rung is left"),
    ] {
        let notice = Notice::Outlook {
            run: "grpo-7b",
            attempt: 3,
            next,
        };
        board.take(&notice, at(3_430));
        state.heard(board.outlook.take().unwrap());
        let screen = screen((80, 24), &board, &state, &shown(LOG));
        assert!(screen.contains(words), "{screen}");
        state.mode = Mode::Commands;
    }
}

#[test]
fn the_log_scrolls_by_lines_and_search_marks_what_it_finds() {
    let board = third_attempt();
    let mut state = ScreenState::default();
    let log: String = (0..200)
        .map(|n| format!("line {n:03} of the log\n"))
        .collect();
    let shown = shown(&log);
    let rows = Rows { runs: 0, log: 10 };
    state.press(KeyPress::Up, &board, &shown, rows);
    assert_eq!(state.place, LogPosition::At(189 * 20));
    state.press(KeyPress::End, &board, &shown, rows);
    assert_eq!(state.place, LogPosition::End);
    for key in "/line 150".chars().map(KeyPress::Char) {
        state.press(key, &board, &shown, rows);
    }
    let wish = state.press(KeyPress::Enter, &board, &shown, rows);
    assert_eq!(wish, Some(ScreenRequest::Find { back: false }));
    state.place = LogPosition::At(150 * 20);
    let buffer = drawn((80, 24), COLOURS, &board, &state, &shown);
    let reversed = buffer.content().iter();
    let reversed = reversed.filter(|c| c.fg == ratatui::style::Color::Yellow);
    assert_eq!(reversed.map(|c| c.symbol()).collect::<String>(), "line 150");
}
