//! Bus and adapter models: from counted crossings to bus cycles and time.
