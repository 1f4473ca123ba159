//! Sockets in the file system: opened where a process has left one behind, removed by whom they belong to.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket file, as it was when its process began to listen.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode: another process may have put its own in the place since.
    identity: (u64, u64),
}

impl SocketFile {
    /// The file at `path`, if there is one.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        Some(Self { path: path.to_owned(), identity: identity(path)? })
    }

    /// Removes the file, unless another one has taken its place.
    pub(crate) fn remove(&self) {
        if identity(&self.path) == Some(self.identity) {
            // Whoever comes next removes what is left.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = path.symlink_metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Listens at `path`. A socket that a process has left behind is removed, as Redis does; one that somebody
/// listens on is not.
///
/// # Errors
/// The path is in use, or not ours.
pub(crate) fn bind(path: &Path, mode: Option<u32>) -> io::Result<UnixListener> {
    if is_left_behind(path) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    allow(path, mode)?;
    Ok(listener)
}

/// Lets those connect to the socket at `path` that `mode` names; `None` leaves it as it is.
///
/// # Errors
/// The file is not ours.
pub(crate) fn allow(path: &Path, mode: Option<u32>) -> io::Result<()> {
    mode.map_or(Ok(()), |mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    })
}

fn is_left_behind(path: &Path) -> bool {
    let is_socket = path.metadata().is_ok_and(|it| it.file_type().is_socket());
    let refuses = || UnixStream::connect(path).is_err();
    is_socket && refuses()
}
