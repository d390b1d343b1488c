//! How often something may be tried.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// So many counts are kept, whoever tries: a name has its place by a hash that nobody knows beforehand. Two
/// names in one place share a count, which is rare.
const PLACES: usize = 16_384;

/// Lets each name try a few times at once, and then again after a while each.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// So many tries at once.
    burst: u32,
    /// After each of them it may be tried once more.
    interval: Duration,
    hasher: RandomState,
    /// When each will have all its tries back.
    free_at: Mutex<Box<[Duration]>>,
}

impl Limiter {
    pub(crate) fn new(burst: u32, interval: Duration) -> Self {
        let free_at = Mutex::new(vec![Duration::ZERO; PLACES].into_boxed_slice());
        Self { burst, interval, hasher: RandomState::new(), free_at }
    }

    /// Counts a try; or, if there were too many, says how long to wait.
    pub(crate) fn count(&self, name: &str, now: Duration) -> Result<(), Duration> {
        self.at(name, |free_at| {
            let next = (*free_at).max(now) + self.interval;
            let most = now + self.interval * self.burst;
            if next > most {
                return Err(next - most);
            }
            *free_at = next;
            Ok(())
        })
    }

    /// A try that was counted was right, and does not count.
    pub(crate) fn forgive(&self, name: &str) {
        self.at(name, |free_at| *free_at = free_at.saturating_sub(self.interval));
    }

    fn at<T>(&self, name: &str, change: impl FnOnce(&mut Duration) -> T) -> T {
        let mut all = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let place = usize::try_from(self.hasher.hash_one(name) % PLACES as u64).unwrap_or_default();
        let mut none = Duration::ZERO;
        change(all.get_mut(place).unwrap_or(&mut none))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_tries_at_once_and_then_one_after_a_while() {
        let second = Duration::from_secs(1);
        let (limiter, start) = (Limiter::new(3, 10 * second), 1_000 * second);
        for _ in 0..3 {
            assert_eq!(limiter.count("ann", start), Ok(()));
        }
        assert_eq!(limiter.count("ann", start), Err(10 * second));
        assert_eq!(limiter.count("ann", start + 9 * second), Err(second), "asking does not prolong it");
        assert_eq!(limiter.count("ann", start + 10 * second), Ok(()));
        assert_eq!(limiter.count("ann", start + 10 * second), Err(10 * second));
        assert_eq!(limiter.count("bea", start + 10 * second), Ok(()));
        limiter.forgive("ann");
        assert_eq!(limiter.count("ann", start + 10 * second), Ok(()));
        for _ in 0..3 {
            assert_eq!(limiter.count("ann", start + 90 * second), Ok(()));
        }
    }
}
