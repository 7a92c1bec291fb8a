//! Packed rows that are kept elsewhere and had again.

use mercer_simd::factors::{Records, RecordsMeta, RowKey};

fn some(first: u32) -> Records {
    let mut records = Records::new(5, 256);
    for number in first..first + 4 {
        let columns: Vec<u32> = (0..=number % 3).collect();
        let bins: Vec<u16> = columns.iter().map(|column| 7 * *column as u16 + 1).collect();
        assert!(records.push(RowKey { number, tag: number % 2 }, &columns, &bins));
    }
    records
}

fn kept(records: &mut Records) -> (Vec<u8>, RecordsMeta) {
    let (bytes, meta) = records.export();
    (bytes.to_vec(), meta)
}

fn again(into: &mut Records, kept: &(Vec<u8>, RecordsMeta)) -> bool {
    let (bytes, meta) = kept;
    into.import(meta, |place| {
        place.copy_from_slice(bytes);
        true
    })
}

#[test]
fn sealed_records_come_back_with_their_orders_and_changed_bytes_do_not() {
    let mut records = some(3);
    let order = records.order(|row| row.tag == 1);
    let mut sealed = kept(&mut records);
    let mut other = Records::new(0, 1);
    assert!(again(&mut other, &sealed));
    assert_eq!((other.rows(), other.entries(), other.columns()), (4, records.entries(), 5));
    assert_eq!(other.numbers(&order), [3, 5]);
    assert!(other.heads().map(|row| row.row).eq(3..7));
    for at in 0..sealed.0.len() {
        sealed.0[at] ^= 16;
        assert!(!again(&mut other, &sealed), "byte {at}");
        assert_eq!((other.rows(), other.heads().count()), (0, 0));
        sealed.0[at] ^= 16;
    }
    assert!(again(&mut other, &sealed));
}

#[test]
#[should_panic(expected = "an order of other records")]
fn records_that_grow_apart_after_a_seal_share_no_orders() {
    let mut records = some(0);
    let sealed = kept(&mut records);
    let mut other = Records::new(0, 1);
    assert!(again(&mut other, &sealed));
    assert!(records.push(RowKey { number: 9, tag: 0 }, &[], &[]));
    let grown = records.order(|_| true);
    other.numbers(&grown);
}

#[test]
fn orders_are_made_of_numbers_that_exist_once() {
    let mut records = some(0);
    assert!(records.join(&some(10)));
    assert_eq!((records.rows(), records.limit()), (8, 14));
    let mut order = records.order_of(&[12, 0, 3], 2).unwrap();
    assert_eq!((order.len(), order.all(), records.numbers(&order)), (2, 3, vec![12, 0, 3]));
    records.reset_order(&mut order, |row| [0, 3, 12].contains(&row.row));
    assert_eq!((order.len(), order.all(), records.numbers(&order)), (3, 3, vec![0, 3, 12]));
    assert!(records.order_of(&[0, 0], 1).is_none());
    assert!(records.order_of(&[4], 1).is_none());
    assert!(records.order_of(&[99], 1).is_none());
    assert!(records.order_of(&[1], 2).is_none());
}

#[test]
fn rows_with_columns_or_bins_that_do_not_exist_are_not_packed() {
    let wrong: [(&[u32], &[u16]); 4] =
        [(&[5], &[1]), (&[0, 1], &[1, 256]), (&[0, 1], &[1]), (&[0], &[1, 1])];
    for (columns, bins) in wrong {
        let mut records = some(0);
        let pushed = std::panic::AssertUnwindSafe(|| {
            records.push(RowKey { number: 9, tag: 0 }, columns, bins)
        });
        assert!(std::panic::catch_unwind(pushed).is_err(), "{columns:?} {bins:?}");
        assert_eq!((records.rows(), records.heads().count()), (4, 4));
    }
}
