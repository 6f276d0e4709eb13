use super::*;

#[test]
fn the_number_of_micro_batches_is_known_however_it_is_written() {
    let sched = "sched = CosineAnnealingLR(opt, n)";
    for before in [
        "n = len(loader)",
        "n = sum(1 for _ in loader)",
        "n = len(list(loader))",
        "n = loader.__len__()",
        "info = {'steps': len(loader)}\nsched = CosineAnnealingLR(opt, info['steps'])",
        "class Data:\n  def __init__(self):\n    self.train = loader\n    self.n = len(self.train)\ndm = Data()\nn = dm.n",
        "batches = loader\nn = sum(1 for _ in batches)",
    ] {
        let before = format!("{before}\n{sched}");
        assert_eq!(looped(&before, LOSS, "pass"), Some(LENGTH), "{before}");
    }
    for before in [
        "n = sum(1 for _ in loader) // args.accum",
        "n = sum(1 for _ in model.parameters())",
        "n = len(list(data))",
        "n = valid_loader.__len__()",
        "info = {'steps': len(loader)}\nprint(info['steps'])\nn = 4",
        "class Rows:\n  def __len__(self):\n    return 4\nn = 4",
        "n = 4\nfor step in range(sum(1 for _ in loader)):\n  pass",
    ] {
        let before = format!("{before}\n{sched}");
        assert_eq!(looped(&before, LOSS, "pass"), None, "{before}");
    }
}
