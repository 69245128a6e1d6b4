//! The streams group against the rules of spec kip1071; tests are named after the row that they hold.

mod answers;
mod lab;
mod persistence;
mod reconciliation;
mod statics;
mod steps;
mod sticky;
mod timers;
mod topology;
mod validation;
