//! All parsers in one table, each with a text that it reads.

use std::hint::black_box;

use mw_proc::arcstats::Arcstats;
use mw_proc::bdi::BdiStats;
use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::cgroup::{self, CpuMax, CpuStat, MemoryEvents, MemoryStat};
use mw_proc::choice::Choice;
use mw_proc::dentry_state::DentryState;
use mw_proc::extfrag::Extfrag;
use mw_proc::inode_state::InodeState;
use mw_proc::limits::Rlimits;
use mw_proc::meminfo::Meminfo;
use mw_proc::mm_stat::MmStat;
use mw_proc::pid_stat::PidStat;
use mw_proc::pressure::Pressure;
use mw_proc::sockstat::Sockstat;
use mw_proc::status::Status;
use mw_proc::version::KernelVersion;
use mw_proc::vmstat::Vmstat;
use mw_proc::zoneinfo::Zoneinfo;
use mw_proc::{
    ParseError, cgroups, cmdline, cpulist, df, diskstats, key_users, loadavg, maps, mounts,
    numa_maps, number, slabinfo, swaps, sysctl, sysvipc_msg, sysvipc_sem, sysvipc_shm, uptime,
    user_beancounters,
};

/// A parser that is fed anything.
pub(crate) struct Parser {
    pub(crate) name: &'static str,
    /// Whether it reads the text.
    pub(crate) parse: fn(&[u8]) -> bool,
    pub(crate) real: &'static [u8],
}

macro_rules! parsers {
    ($($name:literal $real:expr, $parse:expr;)*) => {
        /// Every parser of the crate.
        pub(crate) const PARSERS: &[Parser] = &[$(Parser {
            name: $name,
            parse: |text| black_box($parse(text)).is_ok(),
            real: $real,
        },)*];
    };
}

parsers! {
    "arcstats" b"name type data\nsize 4 450\nc_min 4 100\n", Arcstats::parse;
    "bdi" include_bytes!("../data/bdi_stats"), BdiStats::parse;
    "buddyinfo" include_bytes!("../data/buddyinfo"), buddyinfo;
    "cgroup" include_bytes!("../data/cgroup"), cgroup::parse_self;
    "cgroup limit" b"9223372036854771712\n", cgroup::parse_limit;
    "cgroup stat v1" include_bytes!("../data/memory_stat_v1"), MemoryStat::parse;
    "cgroup stat v2" include_bytes!("../data/memory_stat_v2"), MemoryStat::parse;
    "cgroup.stat" b"nr_descendants 3\nnr_dying_descendants 2\n", cgroup::parse_dying;
    "cgroup events" include_bytes!("../data/memory_events"), MemoryEvents::parse;
    "cgroup oom_control" b"oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", cgroup::parse_oom_control;
    "cgroup frozen" b"populated 1\nfrozen 0\n", cgroup::parse_frozen;
    "cgroup freezer" b"THAWED\n", cgroup::parse_freezer_state;
    "cgroup cpu.stat" b"usage_usec 7\nnr_throttled 2\nthrottled_usec 190000\n", CpuStat::parse;
    "cgroup cpu.max" b"20000 100000\n", CpuMax::parse;
    "cgroup cpu quota" b"-1\n", CpuMax::parse_quota;
    "cgroup io.stat" b"8:0 rbytes=1 wbytes=2 rios=3 wios=4\n", io_stat;
    "cgroup blkio bytes" b"8:0 Read 10\n8:0 Write 20\nTotal 30\n", blkio_bytes;
    "cgroup io.max" b"8:16 rbps=2097152 wbps=max\n", cgroup::parse_io_max;
    "cgroup blkio limit" b"8:16 2097152\n", |text: &[u8]| cgroup::parse_blkio_limit(text, "rbps");
    "cgroups" b"memory\t11\t188\t1\n", cgroups::parse_memory;
    "choice" b"always defer defer+madvise [madvise] never\n", choice;
    "cmdline" include_bytes!("../data/cmdline"), cmdline;
    "cpulist" b"0-3,5,8-10:1/2\n", cpulist::parse;
    "dentry-state" b"280974\t279249\t45\t0\t83712\t0\n", DentryState::parse;
    "df" include_bytes!("../data/df"), df::parse;
    "diskstats" include_bytes!("../data/diskstats"), |text: &[u8]| diskstats::each(text, |_| ());
    "extfrag" include_bytes!("../data/unusable_index"), extfrag;
    "inode-state" b"196925\t12\t0\t0\t0\t0\t0\n", InodeState::parse;
    "key-users" b" 0: 8 8/8 7/1000000 180/25000000\n", key_users::parse;
    "kmsg" b"6,1,5,-;Out of memory: Killed process 7 (a) x\n", kmsg;
    "limits" include_bytes!("../data/limits"), Rlimits::parse;
    "loadavg" b"0.10 0.20 0.30 2/345 6789\n", loadavg::parse_tasks;
    "maps" include_bytes!("../data/maps"), maps::parse;
    "meminfo" include_bytes!("../data/meminfo"), Meminfo::parse;
    "node meminfo" include_bytes!("../data/node_meminfo"), Meminfo::parse;
    "mm_stat" b"209715200 52428800 53000000 0 53000000 100 3 200 201\n", MmStat::parse;
    "mounts" include_bytes!("../data/mounts"), mounts::parse;
    "net tcp" b"  sl\n 0: 00000000:0001 00000000:0000 0A 0:3 0:0 0 0 0 9 1\n", net_tcp;
    "numa maps" b"7ffd2a1d8000 default stack anon=3 N0=1 N1=2 kernelpagesize_kB=4\n", numa_maps::parse;
    "number u64" b"67584\n", number::parse_u64;
    "number i64" b"-1\n", number::parse_i64;
    "number list" b"256\t256\t32\t0\t0\n", number::parse_list_u64;
    "pid_stat" b"4 (a b) S 1 4 4 0 -1 4194304 500 0 7 0 30 20 0 0 20 0 3 0 999 1\n", PidStat::parse;
    "pressure" include_bytes!("../data/pressure"), Pressure::parse;
    "slabinfo" include_bytes!("../data/slabinfo"), slabinfo::parse;
    "sockstat" b"TCP: inuse 1 orphan 0 tw 0 alloc 1 mem 123\nUDP: inuse 0 mem 7\n", Sockstat::parse;
    "status" include_bytes!("../data/status"), Status::parse;
    "swaps" include_bytes!("../data/swaps"), swaps::parse;
    "sysctl" include_bytes!("../data/sysctl"), sysctl;
    "sysvipc_msg" b"key msqid perms\n0 32768 660\n", sysvipc_msg::parse_count;
    "sysvipc_sem" b"key semid perms nsems\n0 1 600 17\n", sysvipc_sem::parse;
    "sysvipc_shm" include_bytes!("../data/sysvipc_shm"), sysvipc_shm::parse;
    "uptime" b"552.79 1063.44\n", uptime::parse;
    "version" include_bytes!("../data/version"), KernelVersion::parse;
    "user_beancounters" b"Version: 2.5\n  uid resource\n 7: numproc 9 9 10 10 3\n", user_beancounters::parse;
    "vmstat" include_bytes!("../data/vmstat"), vmstat;
    "zoneinfo" include_bytes!("../data/zoneinfo"), zoneinfo;
}

/// A parser that fails must leave nothing behind.
fn checked<T>(result: Result<(), ParseError>, left: T, nothing: &T) -> Result<T, ParseError>
where
    T: PartialEq,
{
    assert!(result.is_ok() || left == *nothing);
    result.map(|()| left)
}

fn buddyinfo(text: &[u8]) -> Result<usize, ParseError> {
    let mut info = Buddyinfo::default();
    let result = info.parse_into(text);
    let info = checked(result, info, &Buddyinfo::default())?;
    Ok(info.zones.iter().map(|zone| zone.values().len()).sum())
}

fn extfrag(text: &[u8]) -> Result<usize, ParseError> {
    let mut index = Extfrag::default();
    let result = index.parse_into(text);
    let index = checked(result, index, &Extfrag::default())?;
    Ok(index.zones.iter().map(|zone| zone.values().len()).sum())
}

fn zoneinfo(text: &[u8]) -> Result<usize, ParseError> {
    let mut info = Zoneinfo::default();
    let result = info.parse_into(text);
    let info = checked(result, info, &Zoneinfo::default())?;
    Ok(info.zones.iter().map(|zone| zone.protection().len() + zone.name.as_str().len()).sum())
}

fn kmsg(text: &[u8]) -> Result<mw_proc::kmsg::KernelRecord, ()> {
    mw_proc::kmsg::parse(text).ok_or(())
}

fn net_tcp(text: &[u8]) -> Result<mw_proc::net_tcp::TcpSocket, ()> {
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    mw_proc::net_tcp::find(text, local, None).ok_or(())
}

fn io_stat(text: &[u8]) -> Result<usize, ParseError> {
    let mut devices = Vec::new();
    let result = cgroup::parse_io_stat(text, &mut devices);
    Ok(checked(result, devices, &Vec::new())?.len())
}

fn blkio_bytes(text: &[u8]) -> Result<usize, ParseError> {
    let mut devices = Vec::new();
    let result = cgroup::parse_blkio_bytes(text, &mut devices);
    Ok(checked(result, devices, &Vec::new())?.len())
}

fn vmstat(text: &[u8]) -> Result<u64, ParseError> {
    let mut stat = Vmstat::default();
    let result = stat.parse_into(text);
    let stat = checked(result, stat, &Vmstat::default())?;
    Ok(stat.iter().map(|(counter, _)| counter.name().len() as u64).sum())
}

fn choice(text: &[u8]) -> Result<Option<String>, ParseError> {
    Ok(Choice::parse(text)?.selected().map(str::to_owned))
}

fn cmdline(text: &[u8]) -> Result<Vec<cmdline::Parameter>, ParseError> {
    Ok(cmdline::parse(text))
}

fn sysctl(text: &[u8]) -> Result<Vec<(String, String)>, ParseError> {
    Ok(sysctl::parse_dump(text))
}
