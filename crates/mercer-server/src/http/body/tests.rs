//! Bodies within their limits: of one, and of all together.

use std::io::Write as _;

use super::*;

fn limits() -> BodyLimits {
    BodyLimits::new(4096, 6000, Duration::from_secs(9))
}

async fn read(limits: &BodyLimits, bytes: Vec<u8>) -> Result<HeldBody, Failure> {
    limits.read(&HeaderMap::new(), Body::from(bytes), Framing::Whole).await
}

fn packed(length: usize) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&vec![b' '; length]).unwrap();
    packed.finish().unwrap()
}

/// A body of these pieces, of which no more is asked for than is read; `asked` counts them.
fn in_pieces(pieces: Vec<Vec<u8>>, asked: &Arc<std::sync::atomic::AtomicUsize>) -> Body {
    let asked = Arc::clone(asked);
    Body::from_stream(tonic::codegen::tokio_stream::iter(pieces.into_iter().map(move |piece| {
        asked.fetch_add(1, Ordering::Relaxed);
        Ok::<_, std::io::Error>(piece)
    })))
}

#[tokio::test]
async fn all_bodies_together_take_no_more_than_their_memory() {
    let limits = limits();
    let first = read(&limits, vec![7; 4000]).await.unwrap();
    let refused = read(&limits, vec![7; 4000]).await.unwrap_err();
    assert!(matches!(refused.kind, Kind::Overloaded { .. }), "{refused}");
    drop(first);
    assert_eq!(read(&limits, vec![7; 4000]).await.unwrap().bytes.len(), 4000);
    let long = read(&limits, vec![7; 4097]).await.unwrap_err();
    assert_eq!(long.kind, Kind::TooLarge);
    let headers = HeaderMap::new();
    let message = [&[0, 0, 0, 16, 0][..], &[7; 4096]].concat();
    assert!(limits.read(&headers, Body::from(message), Framing::Message).await.is_ok());
}

#[tokio::test]
async fn memory_is_set_aside_before_a_body_is_read() {
    let limits = limits();
    let asked = Arc::default();
    let _other = read(&limits, vec![7; 3000]).await.unwrap();
    // Its sender waits for a word before he sends it.
    let expect = (header::EXPECT, axum::http::HeaderValue::from_static("100-continue"));
    let headers = HeaderMap::from_iter([(header::CONTENT_LENGTH, 3000.into()), expect]);
    let body = in_pieces(vec![vec![7; 1000]; 3], &asked);
    let refused = limits.read(&headers, body, Framing::Whole).await.unwrap_err();
    assert!(matches!(refused.kind, Kind::Overloaded { reason: Shed::Memory, .. }), "{refused}");
    assert_eq!(asked.load(Ordering::Relaxed), 0, "nothing of it was read");
    // A message of gRPC says how long it is in its first bytes.
    let mut pieces = vec![vec![7; 1000]; 4];
    pieces[0][..PREFIX].copy_from_slice(&[0, 0, 0, 15, 155]);
    let body = in_pieces(pieces, &asked);
    let refused = limits.read(&HeaderMap::new(), body, Framing::Message).await.unwrap_err();
    assert!(matches!(refused.kind, Kind::Overloaded { reason: Shed::Memory, .. }), "{refused}");
    assert_eq!(asked.load(Ordering::Relaxed), 1, "its prefix was read, and nothing else");
}

#[tokio::test]
async fn a_body_in_pieces_takes_no_more_memory_than_is_counted() {
    let limits = BodyLimits::new(10 << 20, 12 << 20, Duration::from_secs(9));
    for (stated, framing) in [(true, Framing::Whole), (false, Framing::Whole)] {
        let asked = Arc::default();
        let body = in_pieces(vec![vec![7; 100_000]; 60], &asked);
        let length = (header::CONTENT_LENGTH, 6_000_000.into());
        let headers = HeaderMap::from_iter(stated.then_some(length));
        let held = limits.read(&headers, body, framing).await.unwrap();
        assert_eq!(held.bytes.len(), 6_000_000);
        let vec = Vec::from(held.bytes);
        let counted = held.place.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        assert!(vec.capacity() <= PIECE * counted, "{} {counted}", vec.capacity());
    }
}

#[tokio::test]
async fn a_body_that_inflates_takes_memory_for_both() {
    let limits = limits();
    let mut held = read(&limits, packed(4096)).await.unwrap();
    assert_eq!(limits.inflated(&mut held, "gzip", 0).unwrap().len(), 4096);
    let mut bomb = read(&limits, packed(1 << 20)).await;
    // 1 KiB and 4 KiB of 5 are taken.
    assert!(matches!(bomb.as_ref().unwrap_err().kind, Kind::Overloaded { .. }));
    drop(held);
    bomb = read(&limits, packed(1 << 20)).await;
    let refused = limits.inflated(bomb.as_mut().unwrap(), "gzip", 0).unwrap_err();
    assert_eq!(refused.kind, Kind::TooLarge, "{refused}");
}

#[tokio::test]
async fn gzip_of_several_members_is_one_body_and_what_follows_its_end_is_damage() {
    let limits = limits();
    let twice = [packed(100), packed(200)].concat();
    let mut held = read(&limits, twice).await.unwrap();
    assert_eq!(limits.inflated(&mut held, "gzip", 0).unwrap().len(), 300);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    zlib.write_all(b"1234").unwrap();
    let mut zlib = zlib.finish().unwrap();
    let mut held = read(&limits, zlib.clone()).await.unwrap();
    assert_eq!(limits.inflated(&mut held, "deflate", 0).unwrap(), b"1234");
    zlib.push(7);
    drop(held);
    let mut held = read(&limits, zlib).await.unwrap();
    let refused = limits.inflated(&mut held, "deflate", 0).unwrap_err();
    assert_eq!(refused.message, "the compressed body is damaged: bytes follow its end");
}
