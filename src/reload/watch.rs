//! Whether files have changed, and been left alone since.
//!
//! Looked at once a second instead of being told by the system: what editors do (write beside and rename) and what Kubernetes does
//! (swap a link two directories above) leaves a watch on a file that nobody reads any more, and network file systems tell nothing.
//! The content counts, not the time of the last write. It is read only where the file's state says that it may be another.

use crate::config::settings::FileRead;
use std::collections::HashMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Between two looks; also how long files have to stay as they are before they are read: a file may be written in pieces, and a
/// certificate is written apart from its key.
pub const EVERY: Duration = Duration::from_secs(1);

/// How old a file's last change has to be before its state stands for its content: two changes within one tick of the file system's
/// clock leave the same state.
const SETTLED: Duration = Duration::from_secs(3);

/// The files, and what they held.
#[derive(Debug)]
pub(super) struct Watched {
    files: Vec<FileRead>,
    known: HashMap<PathBuf, Known>,
    /// As the configuration was last read.
    taken: Held,
    /// As of the last look.
    last: Held,
}

/// What each file holds, as a hash; `None` = it cannot be read.
type Held = Vec<Option<[u8; 32]>>;

/// A file as it was last read.
#[derive(Clone, Debug)]
struct Known {
    state: State,
    hash: [u8; 32],
    /// Whether the state stands for the content.
    settled: bool,
}

/// Device, inode, length, and the last change of content or state.
type State = (u64, u64, u64, (i64, i64), (i64, i64));

impl Watched {
    /// These files, as they were read.
    pub(super) fn new(files: Vec<FileRead>) -> Self {
        let mut watched = Self { files: Vec::new(), known: HashMap::new(), taken: Held::new(), last: Held::new() };
        watched.follow(files);
        watched
    }

    /// From now on these, as they were read.
    pub(super) fn follow(&mut self, files: Vec<FileRead>) {
        self.known.retain(|path, _| files.iter().any(|file| file.path == *path));
        self.taken = files.iter().map(|file| file.hash).collect();
        self.last.clear();
        self.files = files;
    }

    /// Whether something is different from what was read, and was so at the last look already.
    pub(super) async fn settled_change(&mut self) -> bool {
        let now = self.look().await;
        let settled = now == self.last && now != self.taken;
        self.last = now;
        settled
    }

    async fn look(&mut self) -> Held {
        let (files, mut known) = (self.files.clone(), std::mem::take(&mut self.known));
        let looked = tokio::task::spawn_blocking(move || (held(&files, &mut known), known)).await;
        // It fails only at the end of the runtime.
        let (held, known) = looked.unwrap_or_else(|_| (self.taken.clone(), HashMap::new()));
        self.known = known;
        held
    }
}

fn held(files: &[FileRead], known: &mut HashMap<PathBuf, Known>) -> Held {
    let one = |file: &FileRead| match look_at(&file.path, file.most, known.get(&file.path)) {
        Ok(now) => {
            let hash = now.hash;
            known.insert(file.path.clone(), now);
            Some(hash)
        }
        Err(_) => {
            known.remove(&file.path);
            None
        }
    };
    files.iter().map(one).collect()
}

fn look_at(path: &Path, most: u64, known: Option<&Known>) -> std::io::Result<Known> {
    let file = std::fs::File::open(path)?;
    let meta = file.metadata()?;
    let state = (meta.dev(), meta.ino(), meta.len(), (meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
    if let Some(known) = known.filter(|known| known.settled && known.state == state) {
        return Ok(known.clone());
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let changed = Duration::from_secs(u64::try_from(meta.ctime().max(meta.mtime())).unwrap_or(0));
    Ok(Known { state, hash: *blake3::hash(&bytes).as_bytes(), settled: now.saturating_sub(changed) > SETTLED })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    async fn changed(watched: &mut Watched) -> [bool; 2] {
        [watched.settled_change().await, watched.settled_change().await]
    }

    fn read(paths: &[&Path]) -> Watched {
        let hash = |path: &Path| fs::read(path).ok().map(|bytes| *blake3::hash(&bytes).as_bytes());
        let read = |path: &&Path| FileRead { key: "".into(), path: path.to_path_buf(), most: 1 << 20, hash: hash(path) };
        Watched::new(paths.iter().map(read).collect())
    }

    #[tokio::test]
    async fn a_change_counts_once_it_was_seen_twice_however_it_was_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.toml");
        fs::write(&path, "a").unwrap();
        let mut watched = read(&[&path]);
        assert_eq!(changed(&mut watched).await, [false, false], "nothing has changed");

        fs::write(&path, "b").unwrap();
        assert!(!watched.settled_change().await, "it may still be written");
        fs::write(&path, "c").unwrap();
        assert!(!watched.settled_change().await, "it was");
        assert!(watched.settled_change().await);
        let mut watched = read(&[&path]);
        assert_eq!(changed(&mut watched).await, [false, false], "it was read");

        // As editors write: beside it, then into its place.
        fs::write(dir.path().join("new"), "d").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert_eq!(changed(&mut watched).await, [false, true]);
        let mut watched = read(&[&path]);

        fs::write(&path, "d").unwrap();
        assert_eq!(changed(&mut watched).await, [false, false], "the same content again");
        fs::remove_file(&path).unwrap();
        assert_eq!(changed(&mut watched).await, [false, true], "it is gone");
    }

    #[tokio::test]
    async fn a_swapped_link_above_the_file_is_a_change_and_one_swapped_back_is_none() {
        let dir = tempfile::tempdir().unwrap();
        for (version, text) in [("..1", "a"), ("..2", "b")] {
            fs::create_dir(dir.path().join(version)).unwrap();
            fs::write(dir.path().join(version).join("t.toml"), text).unwrap();
        }
        let point = |to: &str| {
            let new = dir.path().join("..data_tmp");
            std::os::unix::fs::symlink(to, &new).unwrap();
            fs::rename(&new, dir.path().join("..data")).unwrap();
        };
        point("..1");
        std::os::unix::fs::symlink("..data/t.toml", dir.path().join("t.toml")).unwrap();
        let mut watched = read(&[&dir.path().join("t.toml")]);
        point("..2");
        assert!(!watched.settled_change().await);
        point("..1");
        assert_eq!(changed(&mut watched).await, [false, false]);
        point("..2");
        assert_eq!(changed(&mut watched).await, [false, true]);
    }

    #[tokio::test]
    async fn files_that_the_configuration_names_are_watched_too() {
        let dir = tempfile::tempdir().unwrap();
        let (path, secret) = (dir.path().join("t.toml"), dir.path().join("secret"));
        fs::write(&path, "a").unwrap();
        let mut watched = read(&[&path, &secret]);
        assert_eq!(changed(&mut watched).await, [false, false]);
        fs::write(&secret, "s").unwrap();
        assert_eq!(changed(&mut watched).await, [false, true], "a file that was missing is there");
    }
}
