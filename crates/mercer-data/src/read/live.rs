//! A byte source that is read ahead by a thread: one read gives all bytes that have come, and waits only where there are none.
//! Who sends rows one by one gets answers one by one, and who sends many at once gets them in large chunks.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, sync_channel};

/// Bytes that the thread reads at a time.
const PIECE: usize = 1 << 16;
/// Pieces that wait at most: 4 MiB.
const WAITING: usize = 64;

/// The bytes of a source, as they come.
pub(super) struct LiveSource {
    pieces: Receiver<io::Result<Vec<u8>>>,
    current: io::Cursor<Vec<u8>>,
    /// An error that came behind bytes, returned after them.
    failure: Option<io::Error>,
}

impl LiveSource {
    /// Starts to read; the thread ends with the source, or after this value is dropped.
    pub(super) fn new(mut source: impl Read + Send + 'static) -> Self {
        let (sender, pieces) = sync_channel(WAITING);
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; PIECE];
                let read = match source.read(&mut piece) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let is_last = !matches!(read, Ok(1..));
                let sent = sender.send(read.map(|count| {
                    piece.truncate(count);
                    piece
                }));
                if is_last || sent.is_err() {
                    return;
                }
            }
        });
        Self { pieces, current: io::Cursor::default(), failure: None }
    }
}

impl Read for LiveSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let mut count = 0;
        while count < buffer.len() {
            let read = self.current.read(&mut buffer[count..])?;
            count += read;
            if read > 0 {
                continue;
            }
            let next =
                if count == 0 { self.pieces.recv().ok() } else { self.pieces.try_recv().ok() };
            match next {
                Some(Ok(piece)) if !piece.is_empty() => self.current = io::Cursor::new(piece),
                Some(Err(error)) if count > 0 => {
                    self.failure = Some(error);
                    break;
                }
                Some(Err(error)) => return Err(error),
                // The end, or nothing more for now.
                Some(Ok(_)) | None => break,
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_as_they_are_written_and_end_with_the_source() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut live = LiveSource::new(reader);
        let mut buffer = [0; 64];
        for line in ["1 1:1\n", "-1 2:1\n"] {
            io::Write::write_all(&mut writer, line.as_bytes()).unwrap();
            let mut got = Vec::new();
            while got.len() < line.len() {
                let count = live.read(&mut buffer).unwrap();
                got.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(got, line.as_bytes());
        }
        drop(writer);
        assert_eq!(live.read(&mut buffer).unwrap(), 0);
        assert_eq!(live.read(&mut buffer).unwrap(), 0);
    }
}
