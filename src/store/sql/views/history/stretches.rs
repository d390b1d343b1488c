//! A line of ids or instants in stretches, from one of its ends on.

/// The stretches between `from` and `until` (not included): short ones first, as most lists are full soon.
pub(super) struct Stretches {
    from: i64,
    until: i64,
    /// From the lowest on; otherwise from the highest.
    rising: bool,
    length: i64,
    longest: i64,
    /// So many may be as long as the longest. What is left then is mostly empty, and each is longer again.
    left: u32,
}

impl Stretches {
    pub(super) fn new((from, until): (i64, i64), rising: bool, (length, longest): (i64, i64)) -> Self {
        Self { from, until, rising, length, longest, left: 1_000 }
    }
}

impl Iterator for Stretches {
    type Item = (i64, i64);

    fn next(&mut self) -> Option<(i64, i64)> {
        /// Each is so many times as long as the one before.
        const GROWTH: i64 = 4;
        if self.from >= self.until {
            return None;
        }
        let stretch = if self.rising {
            let end = self.from.saturating_add(self.length).min(self.until);
            (std::mem::replace(&mut self.from, end), end)
        } else {
            let end = self.until.saturating_sub(self.length).max(self.from);
            (end, std::mem::replace(&mut self.until, end))
        };
        self.left = self.left.saturating_sub(1);
        let longest = if self.left == 0 { i64::MAX } else { self.longest };
        self.length = self.length.saturating_mul(GROWTH).min(longest);
        Some(stretch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(range: (i64, i64), rising: bool) -> Vec<(i64, i64)> {
        Stretches::new(range, rising, (10, 100)).collect()
    }

    #[test]
    fn stretches_grow_up_to_the_longest_and_leave_nothing_out() {
        assert_eq!(all((0, 220), true), [(0, 10), (10, 50), (50, 150), (150, 220)]);
        assert_eq!(all((0, 220), false), [(210, 220), (170, 210), (70, 170), (0, 70)]);
        assert_eq!(all((5, 5), true), []);
        assert_eq!(all((5, 3), false), []);
    }

    #[test]
    fn the_whole_line_has_an_end() {
        for rising in [true, false] {
            let stretches = all((i64::MIN, i64::MAX), rising);
            assert!(stretches.len() < 1_100, "{}", stretches.len());
            let ends = if rising { i64::MIN } else { i64::MAX };
            let met = stretches.iter().fold(ends, |end, (from, until)| {
                assert_eq!(if rising { *from } else { *until }, end);
                if rising { *until } else { *from }
            });
            assert_eq!(met, if rising { i64::MAX } else { i64::MIN });
        }
    }
}
