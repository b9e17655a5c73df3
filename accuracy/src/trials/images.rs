//! The disks that guests of the trials share: the host's services with their libraries, and the services' data.
//! They are made once and kept in target/trials.

use crate::packages;
use crate::workspace::{output, target_dir};
use anyhow::Context;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian packages of the services and tools, and a file of each.
pub(super) const PACKAGES: &[(&str, &str)] = &[
    ("postgresql", "/usr/share/doc/postgresql"),
    ("redis-server", "/usr/bin/redis-server"),
    ("mariadb-server", "/usr/sbin/mariadbd"),
    ("nginx-light", "/usr/sbin/nginx"),
    ("default-jdk-headless", "/usr/bin/javac"),
    ("dmsetup", "/usr/sbin/dmsetup"),
    ("iproute2", "/usr/sbin/tc"),
    ("e2fsprogs", "/sbin/mke2fs"),
];

/// Increased where what is on the disks changes.
const VERSION: u32 = 3;
const PROGRAMS: &[&str] = &[
    "/usr/bin/redis-server",
    "/usr/sbin/mariadbd",
    "/usr/sbin/nginx",
    "/usr/sbin/dmsetup",
    "/usr/sbin/tc",
];
const FOLDERS: &[&str] = &["/usr/share/mysql", "/usr/share/zoneinfo/Etc", "/etc/ssl/openssl.cnf"];
const SYSTEM_MIB: u64 = 640;
const DATA_MIB: u64 = 768;
const FILE_MIB: usize = 96;
/// Rows of about 1 kB.
pub(super) const ROWS: u64 = 48_000;
pub(super) const TABLE_MIB: u64 = 54;

pub(super) struct Images {
    pub(super) system: PathBuf,
    pub(super) data: PathBuf,
    /// The user whose files the databases are.
    pub(super) uid: u32,
}

/// Makes what is missing. `memwright` must find its libraries on the first disk, too.
pub(super) fn prepare(memwright: &Path) -> anyhow::Result<Images> {
    packages::install(PACKAGES)?;
    let cache = target_dir().join(format!("trials/images-{VERSION}"));
    fs::create_dir_all(&cache)?;
    let (system, data, owner) = (cache.join("system"), cache.join("data"), cache.join("owner"));
    if !system.exists() {
        make(&system, SYSTEM_MIB, |tree| system_tree(tree, memwright))?;
    }
    if !data.exists() {
        make(&data, DATA_MIB, |tree| {
            data_tree(tree)?;
            Ok(fs::write(&owner, fs::metadata(tree.join("pg"))?.uid().to_string())?)
        })?;
    }
    let uid = fs::read_to_string(&owner)?.parse()?;
    Ok(Images { system: system.canonicalize()?, data: data.canonicalize()?, uid })
}

/// An ext4 image of the tree that `fill` makes; it has its name when it is complete.
fn make(image: &Path, mib: u64, fill: impl Fn(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    println!("making {}", image.display());
    let tree = tempfile::tempdir()?;
    fill(tree.path())?;
    let half = image.with_extension("half");
    let _ = fs::remove_file(&half);
    fs::File::create(&half)?.set_len(mib << 20)?;
    output(
        Command::new("/sbin/mke2fs")
            .args(["-q", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-d"])
            .arg(tree.path())
            .arg(&half),
    )?;
    Ok(fs::rename(half, image)?)
}

fn system_tree(tree: &Path, memwright: &Path) -> anyhow::Result<()> {
    for folder in ["usr/lib", "usr/lib64", "usr/bin", "usr/share", "java"] {
        fs::create_dir_all(tree.join(folder))?;
    }
    for name in ["lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), tree.join(name))?;
    }
    let postgres = postgres_dir()?;
    let java = fs::canonicalize("/usr/bin/java")?;
    let home = java.ancestors().nth(2).context("no folder of java")?.to_path_buf();
    let version = postgres.file_name().unwrap_or_default();
    let present = FOLDERS.iter().map(PathBuf::from).filter(|path| path.exists());
    let mut folders: Vec<PathBuf> = present.collect();
    folders.push(postgres.join("lib"));
    folders.push(Path::new("/usr/share/postgresql").join(version));
    folders.extend([home.join("lib"), home.join("conf"), java.clone()]);
    folders.extend(config_of_java(&home));
    let mut programs: Vec<PathBuf> = PROGRAMS.iter().map(PathBuf::from).collect();
    programs.push(postgres.join("bin/postgres"));
    for path in folders.iter().chain(&programs) {
        copy(path, tree)?;
    }
    programs.extend([java.clone(), home.join("lib/server/libjvm.so"), memwright.to_path_buf()]);
    programs
        .extend(["libnio.so", "libnet.so", "libzip.so"].map(|name| home.join("lib").join(name)));
    for library in libraries(&programs)? {
        let inside = tree.join(library.strip_prefix("/")?);
        fs::create_dir_all(inside.parent().unwrap_or(tree))?;
        fs::copy(&library, &inside)?;
    }
    for (name, at) in [("postgres", postgres.join("bin/postgres")), ("java", java)] {
        std::os::unix::fs::symlink(at, tree.join("usr/bin").join(name))?;
    }
    let source = crate::workspace::root().join("lab/trials/Server.java");
    output(Command::new("javac").arg("-d").arg(tree.join("java")).arg(source)).map(drop)
}

/// Debian keeps a JVM's settings in /etc.
fn config_of_java(home: &Path) -> Option<PathBuf> {
    let name = home.file_name()?.to_string_lossy().into_owned();
    let number = name.split('-').nth(1)?;
    Some(Path::new("/etc").join(format!("java-{number}-openjdk"))).filter(|path| path.is_dir())
}

fn postgres_dir() -> anyhow::Result<PathBuf> {
    let mut versions: Vec<PathBuf> =
        Path::new("/usr/lib/postgresql").read_dir()?.flatten().map(|entry| entry.path()).collect();
    versions.sort();
    versions.pop().context("no version of PostgreSQL in /usr/lib/postgresql")
}

/// Copies a file or a directory to the same place in the tree.
fn copy(path: &Path, tree: &Path) -> anyhow::Result<()> {
    let inside = tree.join(path.strip_prefix("/")?);
    let folder = inside.parent().unwrap_or(tree);
    fs::create_dir_all(folder)?;
    output(Command::new("cp").arg("-aH").arg(path).arg(folder)).map(drop)
}

fn libraries(programs: &[PathBuf]) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut all = BTreeSet::new();
    for program in programs {
        let output = Command::new("ldd").arg(program).output().context("ldd")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for word in text.split_whitespace().filter(|word| word.starts_with('/')) {
            let path = word.trim_end_matches(':');
            // /lib is a link to /usr/lib.
            let inside =
                if path.starts_with("/lib") { format!("/usr{path}") } else { path.to_owned() };
            all.insert(PathBuf::from(inside));
        }
    }
    Ok(all.into_iter().filter(|path| path.to_string_lossy().contains(".so")).collect())
}

fn data_tree(tree: &Path) -> anyhow::Result<()> {
    fs::write(tree.join("app"), vec![b'x'; FILE_MIB << 20])?;
    let pg = tree.join("pg");
    let mysql = tree.join("mysql");
    for dir in [&pg, &mysql] {
        fs::create_dir(dir)?;
    }
    // The databases refuse to run as root.
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        let output = Command::new("id").args(["-u", "postgres"]).output()?;
        let uid: u32 = String::from_utf8_lossy(&output.stdout).trim().parse()?;
        for dir in [&pg, &mysql] {
            std::os::unix::fs::chown(dir, Some(uid), Some(uid))?;
        }
        make_passable(tree)?;
        fill_postgres(&pg, Some(uid))?;
        fill_mysql(&mysql, Some(uid))
    } else {
        fill_postgres(&pg, None)?;
        fill_mysql(&mysql, None)
    }
}

/// The databases' user must get through a temporary directory.
fn make_passable(dir: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?)
}

fn as_user(uid: Option<u32>, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let Some(uid) = uid else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    let id = uid.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(program);
    command.current_dir("/");
    command
}

fn fill_postgres(dir: &Path, uid: Option<u32>) -> anyhow::Result<()> {
    let bin = postgres_dir()?.join("bin");
    let options = ["-A", "trust", "--locale=C", "-E", "UTF8", "-U", "postgres", "-D"];
    output(as_user(uid, bin.join("initdb")).args(options).arg(dir).stdout(Stdio::null()))?;
    let sql = format!(
        "CREATE TABLE hits (id int PRIMARY KEY, n bigint) WITH (fillfactor = 10);
         INSERT INTO hits VALUES (1, 0);
         CREATE TABLE big (id int PRIMARY KEY, pad text);
         INSERT INTO big SELECT g, repeat('x', 1000) FROM generate_series(1, {ROWS}) g;
         VACUUM FREEZE ANALYZE;
         CHECKPOINT;"
    );
    // Single-user mode: a statement ends with a line.
    let sql: String =
        sql.split(';').map(|statement| statement.replace('\n', " ") + ";\n").collect();
    let single = ["--single", "-D"];
    let mut command = as_user(uid, bin.join("postgres"));
    command.args(single).arg(dir).arg("postgres");
    feed(&mut command, &sql)
}

fn fill_mysql(dir: &Path, uid: Option<u32>) -> anyhow::Result<()> {
    let data = format!("--datadir={}", dir.display());
    let small = ["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M"];
    output(
        as_user(uid, "mariadb-install-db")
            .args([
                "--no-defaults",
                &data,
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ])
            .args(small)
            .stdout(Stdio::null()),
    )?;
    // Privileges are not loaded when mariadbd bootstraps.
    let sql = format!(
        "FLUSH PRIVILEGES;\nCREATE DATABASE trial;\nUSE trial;\n\
         CREATE USER trial@localhost;\nCREATE USER trial@'127.0.0.1';\n\
         GRANT ALL ON trial.* TO trial@localhost;\nGRANT ALL ON trial.* TO trial@'127.0.0.1';\n\
         CREATE TABLE hits (id int PRIMARY KEY, n bigint) ENGINE=InnoDB;\nINSERT INTO hits VALUES (1, 0);\n\
         CREATE TABLE big (id int PRIMARY KEY, pad varchar(1000)) ENGINE=InnoDB;\n\
         INSERT INTO big SELECT seq, REPEAT('x', 1000) FROM seq_1_to_{ROWS};\n"
    );
    let mut command = as_user(uid, "/usr/sbin/mariadbd");
    command.args(["--no-defaults", "--bootstrap", &data]).args(small);
    feed(&mut command, &sql)
}

fn feed(command: &mut Command, text: &str) -> anyhow::Result<()> {
    let input = tempfile::NamedTempFile::new()?;
    fs::write(input.path(), text)?;
    output(command.stdin(fs::File::open(input.path())?).stdout(Stdio::null())).map(drop)
}
