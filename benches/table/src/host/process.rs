//! A process of ours: started, measured, ended.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Linux counts CPU in hundredths of a second, whatever its clock does.
const TICK_MICROS: u64 = 10_000;
/// How long a process may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to listen.
const COMES_UP: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// A process, its children included.
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts it; what it prints goes to a file beside its other files.
    pub fn start(mut command: Command, name: &str, directory: &Path) -> Result<Self, String> {
        let path = directory.join(format!("{name}.out"));
        let log = fs::File::create(&path).map_err(|error| error.to_string())?;
        let also = log.try_clone().map_err(|error| error.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(log).stderr(also).spawn();
        let child = child.map_err(|error| format!("{name} does not start: {error}"))?;
        Ok(Self { child, name: name.to_owned(), log: path })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Waits until it listens at an address.
    pub fn listens(&mut self, address: SocketAddr) -> Result<(), String> {
        let until = Instant::now() + COMES_UP;
        while TcpStream::connect(address).is_err() {
            if self.ended() || Instant::now() > until {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                return Err(format!("{} does not come up: {said}", self.name));
            }
            std::thread::park_timeout(LOOK);
        }
        Ok(())
    }

    /// SIGTERM, and waits; whether it ended well.
    pub fn stop(&mut self) -> Result<bool, String> {
        let signalled = Command::new("kill").args(["-TERM", &self.id().to_string()]).status();
        signalled.map_err(|error| error.to_string())?;
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Ok(status.success());
            }
            if Instant::now() > until {
                return Err(format!("{} does not end on SIGTERM", self.name));
            }
            std::thread::park_timeout(LOOK);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Politely first: an nginx that is killed leaves its workers behind.
        if !self.ended() && self.stop().is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// CPU that a process and its children have used, microseconds.
pub fn cpu(id: u32) -> u64 {
    family(id).into_iter().filter_map(|id| Some(stat(id)?.1)).sum::<u64>() * TICK_MICROS
}

/// Memory of a process and its children that is in RAM, bytes.
pub fn memory(id: u32) -> u64 {
    let kilobytes = |id: u32| {
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    family(id).into_iter().filter_map(kilobytes).sum::<u64>() * 1024
}

/// A process and its children.
fn family(id: u32) -> Vec<u32> {
    let listed = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut family: Vec<u32> = ids.filter(|one| stat(*one).is_some_and(|(parent, _)| parent == id)).collect();
    family.push(id);
    family
}

/// Parent and ticks.
fn stat(id: u32) -> Option<(u32, u64)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name stands in brackets and may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((u32::try_from(number(1)?).ok()?, number(11)? + number(12)?))
}
