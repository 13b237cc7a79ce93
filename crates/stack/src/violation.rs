//! What `check` says when something is not as it must be. Parts that look
//! at themselves say the same.

/// What is not as it must be, and of which socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// The socket's key.
    pub key: u32,
    /// What is wrong with it.
    pub what: &'static str,
}

pub(super) fn holds(is_true: bool, key: u32, what: &'static str) -> Result<(), Violation> {
    if is_true {
        Ok(())
    } else {
        Err(Violation { key, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_hold_is_said_of_its_socket() {
        let (key, what) = (7, "it is wrong");
        assert_eq!(holds(true, key, what), Ok(()));
        assert_eq!(holds(false, key, what), Err(Violation { key, what }));
    }
}
