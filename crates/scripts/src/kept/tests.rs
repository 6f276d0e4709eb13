use super::super::python::tokens;
use super::*;

/// What is found in a program of one file, as kinds and lines.
fn found(text: &str) -> Vec<(Keeping, usize)> {
    let tokens = tokens(text);
    let texts = [CodeText::new("t.py", text, &tokens)];
    let places = kept(&texts).into_iter();
    places.map(|place| (place.what, place.line)).collect()
}

/// A training loop with this line behind its backward pass, and these before it.
fn loop_with(before: &str, inside: &str) -> String {
    format!(
        "import torch\nmodel.train()\n{before}\nfor epoch in range(9):\n    for x, y in loader:\n        out = model(x)\n        \
         loss = criterion(out, y)\n        loss.backward()\n        optimizer.step()\n        {inside}\n"
    )
}

#[test]
fn losses_that_are_added_up_or_collected_with_their_graphs_are_found() {
    for (before, inside) in [
        ("total = 0", "total += loss"),
        ("total = 0.0", "total += loss * x.size(0)"),
        ("total = 0", "total = total + loss / len(loader)"),
    ] {
        let text = loop_with(before, inside);
        assert_eq!(found(&text), [(Keeping::Sum, 10)], "{text}");
    }
    for (before, inside) in [
        ("losses = []", "losses.append(loss)"),
        ("outs = []", "outs.append(out)"),
        ("outs = []", "outs.append(out.cpu())"),
        ("log = {'a': []}", "log['a'].append(loss)"),
    ] {
        let text = loop_with(before, inside);
        assert_eq!(found(&text), [(Keeping::Collection, 10)], "{text}");
    }
}

#[test]
fn a_loss_of_what_was_computed_without_graphs_has_none() {
    let text = |inside: &str, behind: &str| {
        format!(
            "import torch\nmodel.train()\ndef evaluation(model, loader):\n    model.eval()\n    losses = 0\n    for batch in loader:\n        \
             {inside}\n        loss = {behind}\n        losses += loss.float()\n    return losses\n"
        )
    };
    let quiet = "with torch.no_grad():\n            outputs = model(**batch)";
    assert_eq!(found(&text(quiet, "outputs.loss")), []);
    let loud = text("outputs = model(**batch)", "outputs.loss");
    assert_eq!(
        found(&loud),
        [(Keeping::Evaluation, 7), (Keeping::Sum, 9)],
        "{loud}"
    );
}

#[test]
fn a_loss_of_what_was_detached_has_no_graph() {
    let text = |value: &str| {
        format!(
            "import torch\nmodel.train()\ndef validate(model, loader):\n    total = 0\n    for x, y in loader:\n        \
             logits = {value}\n        total += loss_fn(logits, y)\n    return total\n"
        )
    };
    assert_eq!(found(&text("model(x).detach()")), []);
    assert!(found(&text("model(x)")).contains(&(Keeping::Sum, 7)));
}

#[test]
fn numbers_and_what_a_gradient_is_computed_of_are_none() {
    for (before, inside) in [
        ("total = 0", "total += loss.item()"),
        ("total = 0", "total += float(loss)"),
        ("total = 0", "total += loss.detach()"),
        ("total = 0", "total += loss.data"),
        ("total = 0", "total += len(x)"),
        ("sizes = []", "sizes.append(out.size(0))"),
        ("sizes = []", "sizes.append(out.shape[0])"),
        ("right = 0", "right += (out.argmax(1) == y).sum()"),
        ("losses = []", "losses.append(loss.item())"),
        ("outs = []", "outs.append(out.detach().cpu())"),
        ("names = []", "names.append(y)"),
        ("", "print(loss)"),
        ("scores = []", "scores.append(accuracy(out, y))"),
        ("total = 0", "total = loss"),
    ] {
        let text = loop_with(before, inside);
        assert_eq!(found(&text), [], "{text}");
    }
    // Begun anew in the same loop.
    let parts = "model.train()\nfor x in loader:\n    total = 0\n    for part in x:\n        loss = criterion(model(part))\n        total += loss\n    total.backward()\n";
    assert_eq!(found(parts), []);
    let shown = loop_with("mean = 0", "mean += loss_items");
    let shown = shown.replace("loss = criterion", "loss, loss_items = criterion");
    assert_eq!(found(&shown), []);
    let freed = loop_with("total = 0", "loss = loss.item()\n        total += loss");
    assert_eq!(found(&freed), []);
    let cleared = loop_with(
        "outs = []",
        "outs.append(out)\n        if full: outs.clear()\n        outs = []",
    );
    assert_eq!(found(&cleared), []);
}

#[test]
fn a_function_that_a_training_loop_calls_keeps_what_its_object_has() {
    let text = "def step(self, data):\n    parts, loss_a, loss_b = self.net(data)\n    loss = loss_a + loss_b\n    loss.backward()\n    self.sums['a'] += loss_a * 1000\n";
    assert_eq!(found(text), [(Keeping::Sum, 5)]);
    let meter = "class Meter:\n    def update(self, val):\n        self.sum += val\ndef step(self, data):\n    loss = self.net(data)\n    loss.backward()\n    self.meter.update(loss)\n";
    assert_eq!(found(meter), [(Keeping::Sum, 7)]);
    assert_eq!(found(&meter.replace("(loss)", "(loss.item())")), []);
    // Whoever gets it may compute a gradient of it.
    let helper = "def together(outs, y):\n    total = 0\n    for out in outs:\n        total += criterion(out, y)\n    return total\n";
    assert_eq!(found(helper), []);
}

#[test]
fn an_evaluation_with_graphs_is_found_and_one_without_is_not() {
    let text = "def validate(model, loader):\n    model.eval()\n    for x, y in loader:\n        out = model(x)\n        right = out.argmax(1) == y\n";
    assert_eq!(found(text), [(Keeping::Evaluation, 4)]);
    for quiet in [
        format!("@torch.no_grad()\n{text}"),
        text.replace("    for x", "    with torch.no_grad():\n     for x")
            .replace("        ", "         "),
        format!("{text}with torch.inference_mode():\n    validate(m, l)\n"),
        format!("torch.set_grad_enabled(False)\n{text}"),
        format!("@smart_inference_mode()\n{text}"),
    ] {
        assert_eq!(found(&quiet), [], "{quiet}");
    }
    let layers = "model.eval()\nm.train()\ndef predict(model, x):\n    for m in model.layers:\n        x = m(x)\n";
    assert_eq!(found(layers), []);
    let infer = "model.eval()\nouts = []\nfor x in loader:\n    out = model(x)['out']\n    outs.append(out)\n";
    assert_eq!(
        found(infer),
        [(Keeping::Evaluation, 4), (Keeping::Collection, 5)]
    );
    // One file that trains and evaluates.
    let both = format!(
        "{}    model.eval()\n    for x in tests:\n        out = model(x)\n",
        loop_with("", "pass")
    );
    assert_eq!(found(&both), [(Keeping::Evaluation, 13)]);
    // The gradients of this loop are computed in a file that is not here.
    let steps = "model.train()\ndef accumulate(self, model, loader):\n    for x in loader:\n        self.optim.zero_grad()\n        out = model(x)\n        losses.compute(out)\n        self.optim.step()\n";
    assert_eq!(found(steps), []);
}

#[test]
fn a_state_that_is_handed_on_needs_a_graph_that_is_retained() {
    let text = "model.train()\nh = None\nfor x in loader:\n    out, h = model(x, h)\n    loss = criterion(out)\n    loss.backward(retain_graph=True)\n";
    assert_eq!(found(text), [(Keeping::State, 4)]);
    assert_eq!(found(&text.replace("retain_graph=True", "")), []);
    assert_eq!(
        found(&text.replace("    loss =", "    h = h.detach()\n    loss =")),
        []
    );
}

#[test]
fn a_checkpoint_on_the_gpu_is_found() {
    for text in [
        "c = torch.load(path)\n",
        "c = torch.load(p, map_location=device)\n",
    ] {
        assert_eq!(found(text), [(Keeping::Checkpoint, 1)]);
    }
    for text in [
        "c = torch.load(p, map_location='cpu')\n",
        "c = torch.load(p, map_location=torch.device('cpu'))\n",
        "c = torch.load(p, map_location=lambda s, l: s)\n",
        "c = json.load(f)\n",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn any_text_is_read() {
    for text in [
        "for",
        "for x in",
        "a +=",
        "x.append(",
        "def",
        "@\n",
        "with torch.no_grad():",
        "a = torch.load(",
    ] {
        let _ = found(text);
    }
}

/// The lines of a program of one file that evaluate, joined.
fn evaluating(text: &str) -> Vec<(u64, u64)> {
    let tokens = tokens(text);
    let texts = [CodeText::new("t.py", text, &tokens)];
    let found = super::evaluations(&texts).into_iter();
    found.map(|lines| (lines.from, lines.to)).collect()
}

const TRAINED: &str =
    "net.train()\noptimizer = Adam(net.parameters(), lr=1e-3)\nfor epoch in range(9):\n";

#[test]
fn lines_below_what_makes_a_trained_model_evaluate_do_so_until_it_trains_again() {
    let loops = format!(
        "{TRAINED}    step(net, x)\n    net.eval()\n    with torch.no_grad():\n        out = net(\n            everything)\n    \
         print(out)\n    net.train()\n    step(net, x)\n"
    );
    assert_eq!(evaluating(&loops), [(6, 9)]);
    let inside = format!(
        "{TRAINED}    step(net, x)\n    with torch.no_grad():\n        net.eval()\n        out = net(x)\n"
    );
    assert_eq!(evaluating(&inside), [(7, 7)]);
    let loader = format!("{TRAINED}    for x in loaders['val']:\n        out = net(x)\n");
    assert_eq!(evaluating(&loader), [(5, 5)]);
    for named in ["testloader", "self.valid_loader", "enumerate(test_dl)"] {
        let loader = loader.replace("loaders['val']", named);
        assert_eq!(evaluating(&loader), [(5, 5)], "{named}");
    }
    let looped = |text: &str| {
        let tokens = tokens(text);
        super::evaluations(&[CodeText::new("t.py", text, &tokens)])[0].is_looped
    };
    assert!(looped(&loader) && !looped(&inside));
    let decorated = "@torch.no_grad()\ndef figures(net):\n    net.eval()\n    return net(x)\n";
    assert_eq!(evaluating(decorated), [(4, 4)]);
}

#[test]
fn what_runs_without_gradients_beside_a_step_of_training_is_no_evaluation() {
    let step = "        loss = criterion(net(x), t)\n        loss.backward()\n";
    for (before, inside) in [
        // A teacher, a frozen encoder, a rollout.
        (
            "teacher.eval()",
            "with torch.no_grad():\n            t = teacher(x)",
        ),
        (
            "",
            "with torch.no_grad():\n            teacher.eval()\n            t = teacher(x)",
        ),
        ("", "with torch.no_grad():\n            x = vae.encode(x)"),
        ("net.eval()", "t = net(x)"),
        ("", "for i in range(test_every):\n            t = net(x)"),
    ] {
        let text = format!("{TRAINED}    {before}\n    for x in loader:\n        {inside}\n{step}");
        assert_eq!(evaluating(&text), [], "{text}");
    }
    let rollout = format!(
        "{TRAINED}    for step in range(8):\n        with torch.no_grad():\n            action = net(x)\n    loss.backward()\n"
    );
    assert_eq!(evaluating(&rollout), []);
    let latents = "vae.eval()\nfor x in train_loader:\n    latents.append(vae.encode(x))\n";
    assert_eq!(evaluating(latents), []);
    // Learning from data of that name.
    let learns = format!(
        "{TRAINED}    for x in val_loader:\n        out = net(x)\n        out.backward()\n"
    );
    assert_eq!(evaluating(&learns), []);
}

#[test]
fn a_frame_is_held_by_file_line_and_function() {
    let tokens = tokens("def f():\n    for x in val_loader:\n        out = net(x)\n");
    let text = "def f():\n    for x in val_loader:\n        out = net(x)\n";
    let texts = [CodeText::new("src/t.py", text, &tokens)];
    let [lines] = &super::evaluations(&texts)[..] else {
        panic!("one stretch")
    };
    assert!(lines.hold("/home/u/src/t.py", 3, "f"));
    assert!(lines.hold("t.py", 3, "<listcomp>"));
    assert!(!lines.hold("/home/u/src/t.py", 2, "f"));
    assert!(!lines.hold("/home/u/src/t.py", 3, "g"));
    assert!(!lines.hold("/home/u/other/t.py", 3, "f"));
}

#[test]
fn what_only_picks_a_part_hands_no_graph_on() {
    let text = |made: &str| {
        loop_with(
            "outs = []",
            &format!("_, best = torch.max(out, dim=1)\n        best = {made}\n        outs.append(best[0][: lengths[0]])"),
        )
        .replace("out = model(x)", "out, lengths = model(x)")
    };
    assert_eq!(found(&text("best.tolist()")), []);
}

#[test]
fn a_loss_that_comes_with_the_one_of_the_gradient_is_kept_where_it_is_a_part_of_it() {
    let text = "class Meter:\n    def update(self, vals):\n        for i, v in enumerate(vals):\n            self._sum[i] += v\ndef step(self, data):\n    \
        total, loss_a, loss_b = self.parts(data)\n    total.backward()\n    self.meter.update([loss_a * 10, loss_b * 10])\n\
        def parts(self, data):\n    a, b = self.net(data)\n    loss_a = criterion(a)\n    loss_b = criterion(b)\n    total = loss_a + loss_b\n    return total, loss_a, loss_b\n";
    assert_eq!(found(text), [(Keeping::Sum, 8)], "{text}");
    for (from, to) in [
        (
            "[loss_a * 10, loss_b * 10]",
            "[loss_a.item(), loss_b.item()]",
        ),
        ("total = loss_a + loss_b", "total = criterion(a + b)"),
        (
            "return total",
            "loss_a = loss_a.item()\n    loss_b = loss_b.item()\n    return total",
        ),
        (
            "total, loss_a, loss_b = self",
            "total, loss_a, loss_b, n = self",
        ),
    ] {
        let text = text.replacen(from, to, 1);
        assert_eq!(found(&text), [], "{text}");
    }
}

#[test]
fn a_buffer_that_stores_what_it_is_handed_is_found() {
    let text = "import torch\nclass ReplayBuffer:\n    def __init__(self, size):\n        self.items: list = []\n    def push(self, *args):\n        \
        self.items.append(None)\n        self.items[self.at] = args\n    def sample(self):\n        return torch.stack(self.items)\n\
        def run(self, t):\n    self.replay_buffer.push(t, t['reward'])\n";
    assert_eq!(found(text), [(Keeping::Buffer, 7)], "{text}");
    let appended = text.replace("self.items[self.at] = args", "self.items.append(args)");
    assert_eq!(found(&appended), [(Keeping::Buffer, 7)]);
    for (from, to) in [
        // It lets go, or never held tensors of the GPU.
        ("= args", "= [a.detach() for a in args]"),
        (".push(t, t['reward'])", ".push(t.detach(), 1)"),
        (".push(t, t['reward'])", ".push(t.cpu(), 1)"),
        ("torch.stack(self.items)", "torch.from_numpy(self.items)"),
        ("import torch\n", "import numpy\n"),
        ("self.items: list = []", "self.items = torch.zeros(size)"),
        // Nobody hands it anything, or it is something else.
        ("self.replay_buffer.push", "self.heap.push"),
        ("class ReplayBuffer", "class Parser"),
    ] {
        let text = text.replacen(from, to, 1).replace(
            "torch.stack",
            match to {
                "import numpy\n" => "numpy.stack",
                _ => "torch.stack",
            },
        );
        assert_eq!(found(&text), [], "{text}");
    }
}

#[test]
fn lightnings_hook_is_found_where_a_step_returns_more_than_numbers() {
    let text = "class Model(pl.LightningModule):\n    def forward(self, x):\n        return {'loss': loss, 'preds': out}\n    def training_step(self, batch, i):\n        \
        return self(batch)\n    def training_epoch_end(self, outputs) -> None:\n        pass\n";
    assert_eq!(found(text), [(Keeping::Outputs, 6)], "{text}");
    let own = text.replace("return self(batch)", "return {'loss': a, 'y': y}");
    assert_eq!(found(&own), [(Keeping::Outputs, 6)]);
    for (from, to) in [
        ("return self(batch)", "return loss"),
        ("'preds': out", "'acc': acc"),
        ("'preds': out", "'preds': out.detach().cpu()"),
        ("training_epoch_end", "on_train_epoch_end"),
    ] {
        let text = text.replacen(from, to, 1);
        assert_eq!(found(&text), [], "{text}");
    }
}
