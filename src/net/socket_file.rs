//! Unix socket files: replaced when stale, and removed only by the process that owns them.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket file, as it was when its process began to listen.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode, because another process may have replaced the file since.
    identity: (u64, u64),
}

impl SocketFile {
    /// Identifies the file at `path`, if there is one.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        Some(Self { path: path.to_owned(), identity: identity(path)? })
    }

    /// Removes the file unless another one has replaced it.
    pub(crate) fn remove(&self) {
        if identity(&self.path) == Some(self.identity) {
            // The next process removes a file that stays behind.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = path.symlink_metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Listens at `path`. Removes a stale socket, like Redis, but not one on which a process listens.
///
/// # Errors
/// Returns an error if the path is in use or not ours.
pub(crate) fn bind(path: &Path, mode: Option<u32>) -> io::Result<UnixListener> {
    if is_left_behind(path) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    allow(path, mode)?;
    Ok(listener)
}

/// Sets the file mode of the socket at `path`, which decides who may connect; `None` leaves it unchanged.
///
/// # Errors
/// Returns an error if the file is not ours.
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
