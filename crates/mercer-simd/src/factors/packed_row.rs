//! How a pass reads one packed row: pointers to its columns and cells, and prefetches of rows that come next.
//! Passes are in `sweep.rs`; what cells stand for is in `encoding.rs`.

use super::RowHead;
use super::encoding::{Reader, Stored};
use super::records::HEAD;

/// A task over records that is compiled for each size of columns and cells and each way to read them.
pub trait RecordTask<T> {
    /// What it returns.
    type Output;

    /// Runs it.
    fn run<C, L, R>(self, reader: R) -> Self::Output
    where
        C: Stored<Read = usize>,
        L: Stored,
        R: Reader<C, L, Real = T>;
}

/// One row: where its columns and cells are. `Records` checked that the columns and bins exist.
#[derive(Debug, Clone, Copy)]
pub struct PackedRow<C, L> {
    columns: *const C,
    cells: *const L,
    pub(super) length: usize,
}

impl<C: Stored<Read = usize>, L: Stored> PackedRow<C, L> {
    /// The record at word `offset`.
    ///
    /// # Safety
    /// A record must start at `offset`, of columns `C` and cells `L`.
    #[inline(always)]
    pub(super) unsafe fn at(words: &[u32], offset: usize) -> (RowHead, Self) {
        // SAFETY: a record starts here, so its head and its entries lie within the words.
        unsafe {
            let head = words.as_ptr().add(offset);
            let length = *head.add(3) as usize;
            let columns = head.add(HEAD).cast::<C>();
            let cells = columns.add(length).cast::<L>();
            let entry = RowHead {
                row: *head,
                tag: *head.add(1),
                squared_norm: f32::from_bits(*head.add(2)),
            };
            (entry, Self { columns, cells, length })
        }
    }

    /// # Safety
    /// There must be such an entry.
    #[inline(always)]
    pub(super) unsafe fn column(&self, i: usize) -> usize {
        // SAFETY: the caller says that the entry exists.
        unsafe { C::read(self.columns.add(i)) }
    }

    /// # Safety
    /// There must be such an entry.
    #[inline(always)]
    pub(super) unsafe fn cell(&self, i: usize) -> L::Read {
        // SAFETY: the caller says that the entry exists.
        unsafe { L::read(self.cells.add(i)) }
    }
}

/// A task and the reader of its rows, as one [`crate::vector::Task`] for an instruction set.
pub(super) struct BoundTask<W, R, C, L> {
    pub(super) work: W,
    pub(super) reader: R,
    stored: std::marker::PhantomData<(C, L)>,
}

impl<W, R, C, L> BoundTask<W, R, C, L> {
    pub(super) fn new(work: W, reader: R) -> Self {
        Self { work, reader, stored: std::marker::PhantomData }
    }
}
