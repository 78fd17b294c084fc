//! One suite of behaviours, run on every store: what a ledger answers must not depend on where the books are kept.
//!
//! A case is a function over a [`fixture::Fixture`]; `suite!` makes a test of it for each store. To add a store, give `fixture` a
//! constructor and add a line. What only Redis can get wrong (its scripts, keys and connection) is in `redis_only`.
//! A cluster takes seconds to start, so one serves all cases in turn; what only a cluster can get wrong is in `tests/redis_cluster.rs`.

#[path = "store_conformance/buckets.rs"]
mod buckets;
#[path = "store_conformance/budgets.rs"]
mod budgets;
#[path = "store_conformance/elastic.rs"]
mod elastic;
#[path = "store_conformance/fixture.rs"]
mod fixture;
#[path = "store_conformance/floor.rs"]
mod floor;
#[path = "store_conformance/leases.rs"]
mod leases;
#[path = "store_conformance/look.rs"]
mod look;
#[path = "store_conformance/model.rs"]
mod model;
#[path = "store_conformance/races.rs"]
mod races;
#[path = "support/redis_cluster.rs"]
#[expect(dead_code, reason = "the cluster serves several tests; none uses all of it")]
mod redis_cluster;
#[path = "store_conformance/redis_only.rs"]
mod redis_only;
#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "store_conformance/reference.rs"]
mod reference;
#[path = "store_conformance/replace.rs"]
mod replace;
#[path = "store_conformance/requests.rs"]
mod requests;
#[path = "store_conformance/together.rs"]
mod together;
#[path = "store_conformance/windows.rs"]
mod windows;

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
        $run!($with, buckets:
            a_request_larger_than_the_bucket_never_fits,
            polling_does_not_starve_a_bucket,
            a_full_bucket_earns_no_hidden_credit,
            a_bucket_refills_no_earlier_than_its_rate,
            waits_are_the_exact_instant,
            a_refund_never_passes_capacity,
            an_overrun_is_debt_down_to_one_capacity,
            the_ceiling_forgives_no_debt,
            a_debt_that_is_deeper_already_is_neither_deepened_nor_forgiven,
            time_that_runs_back_neither_earns_nor_locks_out,
            odd_rates_are_exact,
            a_changed_limit_converts_the_level,
            silly_limits_do_no_harm,
        );
        $run!($with, windows:
            no_minute_sees_more_than_the_limit,
            waiters_stand_in_line_and_the_wait_is_exact,
            a_refund_counts_only_inside_the_window,
            a_refund_larger_than_its_slot_frees_no_more_than_that,
            a_limit_that_changes_its_kind_starts_anew,
            a_clock_set_back_locks_nobody_out_and_forgets_nothing,
        );
        $run!($with, requests:
            a_refused_request_takes_nothing,
            a_refusal_by_tokens_keeps_the_requests,
            a_refusal_by_the_budget_keeps_the_rest_as_it_was,
            the_message_is_spent_whatever_else_refuses,
            what_is_given_back_leaves_no_trace,
            all_scopes_are_claimed_or_none,
            start_times_are_first_come_first_served,
            a_long_wait_leaves_the_ceiling_for_later,
            a_second_claim_joins_the_reservation,
        );
        $run!($with, budgets:
            a_thousand_times_three_tenths_of_a_cent,
            tiny_costs_are_not_rounded,
            in_flight_is_told_apart_from_spent,
            a_cap_of_zero_refuses_whatever_costs,
            periods_follow_the_deciding_clock,
            days_of_a_zone_follow_its_calendar,
            a_reservation_is_settled_once,
            an_unknown_reservation_is_booked_once,
            what_is_held_is_given_back_whatever_the_settlement_claims,
            an_unknown_hold_refunds_no_rate_that_was_never_charged,
            what_is_held_after_the_end_is_given_back_and_books_nothing,
            a_reservation_belongs_to_the_period_of_its_admission,
            a_batch_settles_many_customers,
            a_quota_counts_like_a_budget,
        );
        $run!($with, elastic:
            the_largest_cap_that_fits_is_granted,
            below_the_floor_is_refused,
            requests_in_flight_are_not_the_end,
            the_tightest_of_several_caps_decides,
            a_grant_that_others_in_flight_leave_no_room_for_waits,
            a_reservation_settles_what_was_granted,
        );
        $run!($with, look:
            a_look_tells_how_limits_stand_and_what_is_held,
            a_look_changes_nothing,
            a_look_at_nobody_finds_everything_free,
        );
        $run!($with, replace:
            what_would_not_fit_beside_it_fits_in_its_place,
            what_does_not_fit_changes_nothing,
            an_answer_that_is_lost_does_no_harm,
            what_has_ended_is_not_booked_again_by_a_replacement,
            the_next_model_gets_the_output_cap_that_is_left,
            a_reservation_is_replaced_again_and_again,
            many_at_once_never_pass_the_cap,
        );
        $run!($with, races:
            the_last_cents_go_to_exactly_ten,
            a_bucket_of_sixty_admits_sixty_of_five_hundred,
            five_hundred_at_once_never_pass_the_cap,
            elastic_claims_at_once_never_pass_the_cap,
            one_settlement_sent_many_times_at_once_books_once,
        );
    };
}

macro_rules! suite {
    ($module:ident: $store:ident) => {
        mod $module {
            every_case!(cases, $store);
            // A cluster cannot do this one: what takes a reservation's place in two groups must fit beside it.
            mod one_step { cases!($store, replace: every_scope_changes_or_none); }
        }
    };
}

suite!(on_the_reference: reference);
suite!(on_redis: redis);
suite!(on_the_embedded: embedded);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster() {
    macro_rules! in_turn {
        ($cluster:ident, $area:ident: $($case:ident),* $(,)?) => {
            $(
                println!("{}: {}", stringify!($area), stringify!($case));
                crate::$area::$case($cluster.fresh()).await;
            )*
        };
    }
    let cluster = fixture::Clustered::start();
    every_case!(in_turn, cluster);
    in_turn!(cluster, model: every_answer_in_two_calls_is_that_of_the_pure_functions);
}

/// The stores beside the reference, which would only be compared with itself. A store added above belongs here too.
///
/// The embedded store is not compared: it calls the very same functions, and it forgets what has been full for a while, which the model
/// does not.
mod like_the_reference {
    cases!(redis, model: every_answer_is_that_of_the_pure_functions);
}
