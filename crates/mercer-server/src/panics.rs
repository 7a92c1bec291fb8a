//! A panic while a request is answered is a fault of the server: its caller is told so, and nobody else notices.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::failure::{Failure, Kind};

/// The refusal of a request whose work panicked.
pub fn fault() -> Failure {
    Failure::new(Kind::Internal, "a fault of the server: this request could not be answered")
}

/// What a future returns, or the fault if it panics.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    Caught(Box::pin(work)).await.map_err(|_| fault())
}

/// What was shared with the work stays in order: it is behind locks that forgive panics, or counts.
struct Caught<F>(Pin<Box<F>>);

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(found)) => Poll::Ready(Ok(found)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_a_sentence() {
        assert_eq!(caught(async { 7 }).await.unwrap(), 7);
        let broken = async {
            tokio::task::yield_now().await;
            assert!(std::env::args().count() > 1000, "on purpose");
            7
        };
        let failure = caught(broken).await.unwrap_err();
        assert_eq!(failure.kind, Kind::Internal);
        assert!(failure.message.contains("a fault of the server"));
    }
}
