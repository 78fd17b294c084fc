//! One suite of behaviours, run on every store of documents: what it answers must not depend on where they are kept.
//!
//! A case is a function over a [`fixture::Fixture`]; `suite!` makes a test of it for each store. What survives a restart or a `kill -9`
//! is in `restart` and `killed`; what only Redis can get wrong in `redis_only`.

#[path = "documents/expiry.rs"]
mod expiry;
#[path = "documents/fixture.rs"]
mod fixture;
#[path = "documents/killed.rs"]
mod killed;
#[path = "documents/listing.rs"]
mod listing;
#[path = "documents/model.rs"]
mod model;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/mortal_redis.rs"]
mod mortal_redis;
#[path = "documents/races.rs"]
mod races;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/redis_cluster.rs"]
mod redis_cluster;
#[path = "documents/redis_only.rs"]
mod redis_only;
#[path = "documents/restart.rs"]
mod restart;
#[path = "documents/versions.rs"]
mod versions;

macro_rules! cases {
    ($store:ident, $area:ident: $($case:ident),* $(,)?) => {
        mod $area {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::$area::$case(crate::fixture::$store().await).await;
                }
            )*
        }
    };
}

/// Every case, by area, through a macro that takes a name to pass on and `area: cases`.
macro_rules! every_case {
    ($run:ident, $with:ident) => {
        $run!($with, versions:
            a_document_is_read_as_it_was_written_last,
            a_write_that_expects_something_else_changes_nothing,
            a_version_is_not_given_again_after_a_removal,
            ids_are_any_text_up_to_512_bytes,
            values_are_any_bytes_up_to_a_megabyte,
            collections_are_apart,
            many_are_written_in_one_call_and_the_last_one_stands,
        );
        $run!($with, expiry:
            a_document_ends_at_its_instant,
            what_has_ended_counts_as_nothing,
            a_write_sets_the_end_anew,
            a_long_time_is_for_ever,
        );
        $run!($with, listing:
            documents_come_by_rank_and_then_by_id,
            pages_go_on_where_the_last_one_ended,
            a_listing_ends_at_a_rank,
            a_document_stands_in_one_place,
            what_ended_or_was_removed_is_not_listed,
            a_page_has_its_bounds,
            large_documents_are_listed_too,
        );
        $run!($with, races:
            one_of_64_who_expect_nothing_wins,
            one_of_64_who_expect_a_version_wins,
            no_step_of_a_counter_is_lost,
        );
    };
}

macro_rules! suite {
    ($module:ident: $store:ident) => {
        mod $module {
            every_case!(cases, $store);
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
        ($cluster:ident, $area:ident: $($case:ident),* $(,)?) => {
            $(
                println!("{}: {}", stringify!($area), stringify!($case));
                crate::$area::$case(crate::fixture::clustered(&$cluster)).await;
            )*
        };
    }
    let cluster = redis_cluster::RedisCluster::without_replicas(3);
    every_case!(in_turn, cluster);
}
