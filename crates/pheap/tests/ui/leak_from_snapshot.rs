use pheap::{P, PSnapMap, Root, Snapshot};

type Names = PSnapMap<'static, u64, P<'static, str>>;

fn value<'a>(snapshot: &'a Snapshot<u64, P<'static, str>>) -> Option<&'a str> {
    snapshot.read(|names| names.get(&1)).unwrap()
}

fn version(root: &Root<Names>, snapshot: &Snapshot<u64, P<'static, str>>) {
    let mut seen = None;
    snapshot.read(|names| seen = Some(names)).unwrap();
    root.read(|view, map| snapshot.read(|names| assert_eq!([names, view[map].seen(view)].len(), 2))).unwrap().unwrap();
}

fn main() {}
