//! The end of a thread that a test has started.

use std::thread::JoinHandle;

/// Waits until a thread that was told to end has ended. Its panic is the caller's, unless that
/// panics already: a test fails if a thread of its fixture has.
pub fn join(thread: JoinHandle<()>) {
    if let Err(panic) = thread.join()
        && !std::thread::panicking()
    {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_by_a_panic() -> JoinHandle<()> {
        std::thread::spawn(|| std::panic::resume_unwind(Box::new("the thread's")))
    }

    /// A fixture whose thread has panicked.
    struct Fixture(Option<JoinHandle<()>>);

    impl Drop for Fixture {
        fn drop(&mut self) {
            if let Some(thread) = self.0.take() {
                join(thread);
            }
        }
    }

    #[test]
    #[should_panic = "the thread's"]
    fn a_panic_of_the_thread_is_the_callers() {
        drop(Fixture(Some(ended_by_a_panic())));
    }

    #[test]
    #[should_panic = "the test's"]
    fn a_caller_that_panics_panics_once() {
        let _fixture = Fixture(Some(ended_by_a_panic()));
        std::panic::resume_unwind(Box::new("the test's"));
    }

    #[test]
    fn a_thread_that_has_ended_well_is_no_news() {
        join(std::thread::spawn(|| ()));
    }
}
