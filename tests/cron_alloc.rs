//! Asking a schedule for its next fire time must not touch the heap: a poll asks thousands of them.
//!
//! A program of its own, because the allocator it counts with is the whole program's.

use firetime::schedule::{Cron, Gap, Overlap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn next_after_allocates_nothing() {
    assert_eq!(allocations(|| drop(Box::new(1))), 1, "the counter counts");
    let years_of_changes = 1_704_067_200_000..1_767_225_600_000_i64; // 2024 and 2025
    for expression in ["0 0/15 * * * ?", "0 30 2 * * ?", "0 0 0 LW * ?", "0 0 0 ? * 6#3", "0 0 0 29 2 ?"] {
        for (gap, overlap) in [(Gap::FireAfter, Overlap::First), (Gap::Skip, Overlap::Both)] {
            let cron = Cron::parse(expression, "Europe/Berlin").unwrap().gap(gap).overlap(overlap);
            let count = allocations(|| {
                let mut at = years_of_changes.start;
                while let Some(next) = cron.next_after(at).filter(|next| *next < years_of_changes.end) {
                    at = next;
                }
            });
            assert_eq!(count, 0, "{expression}");
        }
    }
}
