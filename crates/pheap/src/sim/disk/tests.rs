use super::*;

fn filled(byte: u8) -> Vec<u8> {
    vec![byte; SECTOR]
}

/// Returns a disk with a log of this many sectors, and the open log.
fn disk(sectors: usize) -> (SimDisk, Arc<dyn Storage>) {
    let image = DiskImage { data: vec![0; 4 * SECTOR], log: Some(vec![0; sectors * SECTOR]) };
    let disk = SimDisk::new(image);
    let log = disk.open_log().unwrap().expect("there is a log");
    (disk, log)
}

fn sector(which: Which, number: u32, byte: u8) -> DiskChange {
    DiskChange::Sector(which, number, Arc::new([byte; SECTOR]))
}

fn point(disk: &SimDisk) -> DiskPoint {
    disk.acknowledge(0, 0);
    disk.take_points().pop().expect("it was acknowledged")
}

fn error<T>(result: io::Result<T>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).expect("it fails")
}

fn fault(which: Which, call: Call, after: usize, error: i32) -> Fault {
    Fault { which, call, after, times: 1, error }
}

#[test]
fn what_is_not_synced_stays_pending() {
    let (disk, log) = disk(4);
    let data = disk.data();
    log.write_some(&filled(1), 0).unwrap();
    data.write_some(&filled(2), 512).unwrap();
    log.write_some(&filled(3), 0).unwrap();
    let all = [sector(Which::Log, 0, 1), sector(Which::Data, 1, 2), sector(Which::Log, 0, 3)];
    assert_eq!(point(&disk).pending, all);
    assert_eq!(disk.view().log.unwrap()[0], 3);
    assert_eq!(disk.durable().log.unwrap()[0], 0);
    log.sync().unwrap();
    let points = disk.take_points();
    assert_eq!(points[0].pending, all, "the power may fail during a sync");
    let after = point(&disk);
    assert_eq!(after.durable, [all[0].clone(), all[2].clone()]);
    assert_eq!(after.pending, [all[1].clone()]);
    assert_eq!((disk.durable().log.unwrap()[0], disk.durable().data[512]), (3, 0));
}

#[test]
fn a_write_keeps_the_rest_of_its_sectors() {
    let (disk, log) = disk(4);
    log.write_some(&filled(1), 512).unwrap();
    log.write_some(&[7; 20], 1014).unwrap();
    let point = point(&disk);
    assert_eq!(point.pending.len(), 3);
    let DiskChange::Sector(_, 1, bytes) = &point.pending[1] else { panic!("{:?}", point.pending[1]) };
    assert_eq!((bytes[501], bytes[502], bytes[511]), (1, 7, 7));
    let DiskChange::Sector(_, 2, bytes) = &point.pending[2] else { panic!("{:?}", point.pending[2]) };
    assert_eq!((bytes[9], bytes[10]), (7, 0));
}

#[test]
fn a_point_says_what_a_killed_process_has_written_at_least() {
    let (disk, log) = disk(4);
    log.write_some(&filled(1), 0).unwrap();
    assert_eq!(point(&disk).written, 0);
    disk.data().write_some(&filled(2), 0).unwrap();
    assert_eq!(point(&disk).written, 1);
    assert_eq!(point(&disk).written, 2);
    log.sync().unwrap();
    assert_eq!(point(&disk).written, 1);
}

#[test]
fn a_failed_sync_leaves_sectors_in_limbo() {
    let (disk, log) = disk(4);
    log.write_some(&filled(1), 0).unwrap();
    log.write_some(&filled(2), 512).unwrap();
    disk.fail(fault(Which::Log, Call::Datasync, 0, libc::EIO));
    assert_eq!(error(log.sync()), libc::EIO);
    assert_eq!(disk.failed(), 1);
    log.write_some(&filled(3), 512).unwrap();
    log.sync().unwrap();
    // Neither version of the second sector can come back, and the first sector may never arrive.
    assert_eq!(point(&disk).pending, [sector(Which::Log, 0, 1)]);
    assert_eq!((disk.durable().log.unwrap()[0], disk.durable().log.unwrap()[512]), (0, 3));
    assert_eq!(disk.view().log.unwrap()[0], 1);
    disk.evict(|| false);
    assert_eq!(disk.view().log.unwrap()[0], 0);
    assert!(point(&disk).pending.is_empty());
}

#[test]
fn what_is_evicted_may_have_reached_the_disk() {
    let (disk, log) = disk(4);
    log.write_some(&filled(1), 0).unwrap();
    disk.fail(fault(Which::Log, Call::Datasync, 0, libc::EIO));
    assert!(log.sync().is_err());
    disk.data().write_some(&filled(2), 0).unwrap();
    disk.evict(|| true);
    assert_eq!((disk.view().log.unwrap()[0], disk.durable().log.unwrap()[0]), (1, 1));
    assert_eq!((disk.view().data[0], disk.durable().data[0]), (2, 0));
}

#[test]
fn faults_hit_the_call_that_they_name() {
    let (disk, log) = disk(4);
    let data = disk.data();
    disk.fail(fault(Which::Log, Call::Write, 1, libc::ENOSPC));
    disk.fail(Fault { times: usize::MAX, ..fault(Which::Data, Call::Extend, 0, libc::ENOSPC) });
    log.write_some(&filled(1), 0).unwrap();
    data.write_some(&filled(1), 0).unwrap();
    assert_eq!(error(log.write_some(&filled(2), 0)), libc::ENOSPC);
    log.write_some(&filled(3), 512).unwrap();
    log.extend(2048, 4096).unwrap();
    for _ in 0..3 {
        assert_eq!(error(data.extend(2048, 4096)), libc::ENOSPC);
    }
    assert_eq!((data.len().unwrap(), log.len().unwrap()), (2048, 4096));
    disk.heal();
    data.extend(2048, 4096).unwrap();
    assert_eq!((disk.failed(), disk.calls(Which::Data, Call::Extend)), (4, 4));
    assert_eq!(disk.view().log.unwrap()[0], 1, "a write that fails writes nothing");
}

#[test]
fn short_writes_are_short() {
    let (disk, log) = disk(16);
    disk.short_writes(ShortWrites::Bytes(100));
    assert_eq!(log.write_some(&[1; 1000], 0).unwrap(), 100);
    assert_eq!(log.write_some(&[1; 10], 0).unwrap(), 10);
    disk.short_writes(ShortWrites::Sectors(1));
    let lengths: Vec<usize> = (0..100).map(|_| log.write_some(&[1; 5 * SECTOR], 0).unwrap()).collect();
    assert!((1..=5).all(|n| lengths.contains(&(n * SECTOR))));
    disk.short_writes(ShortWrites::Random(1));
    assert!((0..100).all(|_| (1..=50).contains(&log.write_some(&[1; 50], 0).unwrap())));
}

#[test]
fn an_extension_is_durable_after_a_sync() {
    let (disk, log) = disk(2);
    log.extend(1024, 4096).unwrap();
    assert!(disk.take_points().is_empty() && disk.durable().log.unwrap().len() == 1024);
    log.sync().unwrap();
    let before = disk.take_points().pop().expect("the power may fail before it is durable");
    let lengths = [2560, 4096].map(|len| DiskChange::Length(Which::Log, len));
    assert_eq!(before.pending, lengths);
    let after = point(&disk);
    assert_eq!((after.pending, after.durable), (vec![], lengths.to_vec()));
    assert_eq!(disk.durable().log.unwrap().len(), 4096);
    // An earlier write is durable with the next sync, and the extension replaces the bytes behind the end.
    log.write_some(&filled(1), 0).unwrap();
    log.write_some(&filled(1), 2048).unwrap();
    log.extend(1024, 8192).unwrap();
    log.sync().unwrap();
    let log = disk.durable().log.unwrap();
    assert_eq!((log.len(), log[0], log[2048]), (8192, 1, 0));
}

#[test]
fn a_removal_is_durable_after_any_sync() {
    let (disk, log) = disk(2);
    log.write_some(&filled(1), 0).unwrap();
    disk.remove_log(&*log).unwrap();
    assert!(disk.open_log().unwrap().is_none() && disk.find_log(&*log).is_err());
    assert_eq!(point(&disk).pending, [sector(Which::Log, 0, 1), DiskChange::NoLog]);
    disk.data().sync().unwrap();
    assert_eq!(disk.durable().log, None);
    assert!(point(&disk).pending.is_empty());
    // An open handle of the removed log can still be used.
    let mut buf = [0; 1];
    log.write_some(&filled(4), 512).unwrap();
    assert_eq!(log.read_some(&mut buf, 0).unwrap(), 1);
    assert_eq!((buf[0], log.len().unwrap()), (1, 1024));
}

#[test]
fn a_new_log_is_durable_on_return_and_has_nothing_of_the_old_one() {
    let (disk, old) = disk(2);
    old.write_some(&filled(1), 0).unwrap();
    assert_eq!(error(disk.create_log()), libc::EEXIST);
    disk.remove_log(&*old).unwrap();
    let new = disk.create_log().unwrap();
    assert_eq!(disk.take_points().pop().unwrap().pending.len(), 3);
    assert!(point(&disk).pending.is_empty() && disk.find_log(&*new).is_ok() && disk.find_log(&*old).is_err());
    assert_eq!((disk.durable().log, new.len().unwrap()), (Some(Vec::new()), 0));
}

#[test]
fn a_log_can_disappear_and_be_another() {
    let (disk, log) = disk(2);
    log.write_some(&filled(1), 0).unwrap();
    disk.set_log(None);
    assert!(disk.open_log().unwrap().is_none() && disk.find_log(&*log).is_err());
    assert!(point(&disk).pending.is_empty());
    disk.set_log(Some(filled(9)));
    let other = disk.open_log().unwrap().unwrap();
    assert!(disk.find_log(&*other).is_ok() && disk.find_log(&*log).is_err());
    let mut image = DiskImage::default();
    point(&disk).durable.iter().for_each(|change| image.apply(change));
    assert_eq!(image.log, Some(filled(9)));
}

#[test]
fn something_can_happen_in_the_middle_of_a_sync() {
    let (disk, log) = disk(2);
    let (data, other) = (disk.data(), disk.open_log().unwrap().unwrap());
    let write = move || {
        other.write_some(&filled(1), 0).unwrap();
    };
    assert!(!disk.amid_sync(Which::Log, Some(Box::new(write))));
    data.sync().unwrap();
    assert!(disk.pending().is_empty());
    log.sync().unwrap();
    assert_eq!(disk.durable().log.unwrap()[0], 0, "it was written too late");
    log.sync().unwrap();
    assert_eq!(disk.durable().log.unwrap()[0], 1);
    assert!(!disk.amid_sync(Which::Log, None));
}

#[test]
fn what_a_killed_process_has_written_is_not_durable() {
    let image = DiskImage { data: vec![0; 1024], log: None };
    let disk = SimDisk::with_pending(image.clone(), &[sector(Which::Data, 1, 5)]);
    assert_eq!((disk.view().data[512], disk.durable()), (5, image));
    let first = point(&disk);
    assert_eq!((first.pending.len(), first.written), (1, 1));
    disk.data().sync().unwrap();
    assert_eq!(disk.durable().data[512], 5);
    assert!(disk.pending().is_empty());
}

/// A small model of the protocol of a log: a record is acknowledged when it is synced, and its data are
/// written afterwards.
#[test]
fn a_small_log_loses_nothing_that_it_acknowledged() {
    let (disk, log) = disk(4);
    let data = disk.data();
    let start = disk.durable();
    let mut acknowledged = 0;
    for step in 1..=3u8 {
        log.write_some(&filled(step), u64::from(step) * 512).unwrap();
        log.sync().unwrap();
        acknowledged += 1;
        disk.acknowledge(acknowledged, acknowledged);
        data.write_some(&filled(step), 0).unwrap();
    }
    let (mut image, mut images) = (start, 0);
    for point in disk.take_points() {
        point.durable.iter().for_each(|change| image.apply(change));
        for mask in 0..1u32 << point.pending.len() {
            let mut crashed = image.clone();
            let chosen = point.pending.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1);
            chosen.for_each(|(_, change)| crashed.apply(change));
            let log = crashed.log.expect("it was never removed");
            let found = (1..4).take_while(|&step| log[step * SECTOR] == step as u8).count();
            let most =
                if point.at == "acknowledgement" { point.acknowledged.0 } else { point.acknowledged.0 + 1 };
            assert!((point.acknowledged.1..=most).contains(&found));
            assert!(usize::from(crashed.data[0]) <= found);
            images += 1;
        }
    }
    assert!(images > 20);
}

#[test]
fn a_sector_can_be_there_in_part() {
    let (disk, log) = disk(4);
    disk.tear();
    log.write_some(&filled(1), 512).unwrap();
    let first = point(&disk).pending;
    let [DiskChange::Sector(Which::Log, 1, part), whole] = &first[..] else { panic!("{first:?}") };
    assert!(*whole == sector(Which::Log, 1, 1) && part.contains(&0) && part.contains(&1));
    assert!(part.chunks(8).all(|word| word == [0; 8] || word == [1; 8]), "a word is whole");
    assert_eq!(disk.view().log.unwrap()[512..1024], filled(1));
    log.sync().unwrap();
    assert_eq!(point(&disk).durable, std::slice::from_ref(whole));
    // In the heap's file only sectors of the header are torn, and never within a word.
    log.write_some(&[7; 8], 0).unwrap();
    disk.data().write_some(&filled(2), 0).unwrap();
    disk.data().write_some(&filled(2), 512).unwrap();
    let pending = point(&disk).pending;
    assert_eq!(pending.len(), 4, "{pending:?}");
    assert!(
        matches!(pending[1], DiskChange::Sector(Which::Data, 0, _))
            && pending[2] == sector(Which::Data, 0, 2)
    );
    // A torn sector of a failed sync stays a part, or becomes whole.
    log.write_some(&filled(3), 1024).unwrap();
    disk.fail(fault(Which::Log, Call::Datasync, 0, libc::EIO));
    assert!(log.sync().is_err());
    let mut first = true;
    disk.evict(|| std::mem::take(&mut first));
    assert!(disk.view().log.unwrap()[1024..1536].iter().all(|&byte| byte == 0 || byte == 3));
}
