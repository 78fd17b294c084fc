//! The history of use: on each store the same, and to the nano-dollar what the ledger says is spent.
//!
//! What series do by themselves is in `series` (one suite, every store); what gateways put into them in `books`.

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/bed.rs"]
mod bed;
#[path = "history/books.rs"]
mod books;
#[path = "history/commands.rs"]
mod commands;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/mortal_redis.rs"]
mod mortal_redis;
#[path = "history/series.rs"]
mod series;
#[path = "history/shadow.rs"]
mod shadow;

macro_rules! suite {
    ($module:ident: $store:ident) => {
        mod $module {
            suite!(@cases $store:
                what_gateways_add_adds_up,
                a_batch_that_is_sent_again_is_not_added_again,
                a_large_batch_is_added_whole_and_once,
                a_peak_is_the_largest_sum_of_a_minute,
                customers_come_by_what_they_spent_and_then_by_id,
                a_scan_gives_every_row_once,
                rows_end_so_many_days_after_their_own,
                large_numbers_keep_every_digit,
            );
        }
    };
    (@cases $store:ident: $($case:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::series::$case(&crate::series::$store()).await;
            }
        )*
    };
}

suite!(memory: memory);
suite!(embedded: embedded);
suite!(redis: redis);
