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
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/redis_cluster.rs"]
mod redis_cluster;
#[path = "history/series.rs"]
mod series;
#[path = "history/shadow.rs"]
mod shadow;

/// Every case, through a macro that takes a name to pass on.
macro_rules! every_case {
    ($run:ident, $with:ident) => {
        $run!($with:
            what_gateways_add_adds_up,
            a_batch_that_is_sent_again_is_not_added_again,
            a_large_batch_is_added_whole_and_once,
            a_peak_is_the_largest_sum_of_a_minute,
            customers_come_by_what_they_spent_and_then_by_id,
            a_scan_gives_every_row_once,
            large_numbers_keep_every_digit,
        );
    };
}

macro_rules! cases {
    ($store:ident: $($case:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::series::$case(&crate::series::$store()).await;
            }
        )*
    };
}

macro_rules! suite {
    ($module:ident: $store:ident) => {
        mod $module {
            every_case!(cases, $store);
            // A cluster ends rows by its own clock: it is told so as one server is, and that is looked at there.
            cases!($store: rows_end_so_many_days_after_their_own);
        }
    };
}

suite!(memory: memory);
suite!(embedded: embedded);
suite!(redis: redis);

/// A cluster takes seconds to start, so one serves all cases in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster() {
    macro_rules! in_turn {
        ($cluster:ident: $($case:ident),* $(,)?) => {
            $(
                println!("{}", stringify!($case));
                series::$case(&series::clustered(&$cluster)).await;
            )*
        };
    }
    let cluster = redis_cluster::RedisCluster::without_replicas(3);
    every_case!(in_turn, cluster);
}
