//! The list of the suite's cases, and the macros that turn it into tests. A case that is not listed here
//! is unused code, and the compiler says so.

/// Writes one `#[test]` per case for one database.
macro_rules! conformance {
    ($database:ident, $fixture:ty) => {
        $crate::store::conformance::for_each_case! { $database, $fixture;
            claims {
                claim_moves_the_cursor_and_leaves_a_row,
                claim_for_an_idle_thread_leaves_it_running,
                what_was_claimed_late_keeps_what_it_waited_for,
                the_links_of_a_chain_are_claimed_under_one_version,
                the_last_occurrence_of_a_finite_schedule_is_claimed_and_leaves_complete,
                an_answer_stands_where_its_request_stood,
                an_occurrence_is_recorded_once,
                a_row_that_fails_alone_leaves_the_rest_their_wins,
                a_pending_execution_is_claimed_under_a_new_token,
                a_pending_execution_of_a_complete_schedule_is_claimed,
                a_pause_holds_planned_pendings_and_lets_manual_ones_run,
                an_empty_batch_is_no_claim,
            }
            expected {
                the_walk_finds_schedules_with_an_expectation_until_they_have_a_row,
                what_never_began_is_noted_once_and_met_by_the_first_success,
                whatever_else_became_of_an_occurrence_it_has_not_succeeded,
                what_a_misfire_policy_skipped_has_not_succeeded,
                what_a_pause_held_back_or_somebody_skipped_nobody_waits_for,
                a_run_by_hand_is_a_success_like_others,
                of_what_somebody_has_paused_nothing_is_unmet,
                what_has_succeeded_since_it_was_found_is_not_noted,
                what_nobody_waits_for_any_more_loses_its_row,
                schedules_with_an_expectation_come_in_pages_by_id,
                a_note_of_what_was_expected_loses_if_only_the_last_one_differs,
            }
            pages {
                schedules_come_in_pages_by_name,
                schedules_that_fire_come_in_pages_by_their_fire_times,
                the_first_of_many_shards_come_first,
                schedules_whose_occurrence_has_not_succeeded_come_in_pages,
                schedules_are_counted_up_to_a_bound,
                executions_are_counted_among_the_newest,
                the_newest_occurrences_of_some_schedules_are_read_at_once,
            }
            outcomes {
                attempts_are_counted_by_their_outcomes,
                how_late_a_handler_began_is_counted,
                an_outcome_said_twice_is_counted_once,
                a_lost_outcome_is_not_counted,
                an_outcome_of_the_handlers_own_transaction_is_counted_once,
                outcomes_are_told_apart_by_hour_job_and_node,
                adding_up_changes_no_count,
                hours_of_the_past_become_days_without_nodes,
                counts_go_with_the_ledger,
            }
            figures {
                what_waits_is_counted_by_job,
                what_waits_is_counted_for_the_first_thousand_jobs,
                schedules_and_nodes_are_counted_by_their_states,
                the_last_success_of_each_active_schedule_is_found,
            }
            guards {
                a_claim_loses_if_only_the_id_differs,
                a_claim_loses_if_only_the_state_differs,
                a_claim_loses_if_only_prev_differs,
                a_claim_loses_if_prev_is_null,
                a_claim_loses_if_only_next_differs,
                a_claim_loses_if_next_is_null,
                a_claim_loses_if_only_the_version_differs,
                a_pending_claim_loses_if_only_the_id_differs,
                a_pending_claim_loses_if_only_the_state_differs,
                a_pending_claim_loses_if_only_the_token_differs,
                a_pending_claim_loses_if_its_schedule_is_in_error,
                a_settlement_loses_if_only_the_id_differs,
                a_settlement_loses_if_only_the_token_differs,
                a_settlement_loses_if_only_the_state_differs,
                a_completion_loses_if_only_the_state_differs,
                a_completion_loses_if_only_the_token_differs,
                a_checkpoint_loses_if_only_the_state_differs,
                a_checkpoint_loses_if_only_the_token_differs,
                a_saying_loses_if_only_the_state_differs,
                a_saying_loses_if_only_the_token_differs,
                a_repair_loses_if_only_the_id_differs,
                a_repair_loses_if_only_the_state_differs,
                a_repair_loses_if_only_prev_differs,
                a_repair_loses_if_only_next_differs,
                a_repair_loses_if_only_the_version_differs,
                a_revocation_loses_if_only_the_id_differs,
                a_revocation_loses_if_only_the_state_differs,
                a_revocation_loses_if_only_the_token_differs,
                a_superseding_loses_if_only_the_state_differs,
                a_superseding_loses_if_only_the_token_differs,
                a_release_loses_if_only_the_state_differs,
                a_release_loses_if_only_the_token_differs,
                a_policy_loses_if_only_one_of_its_values_differs,
                a_note_that_nobody_can_run_a_job_loses_if_only_one_of_its_values_differs,
                a_pause_loses_if_only_the_id_differs,
                a_pause_loses_if_only_the_state_differs,
                a_pause_loses_if_only_the_version_differs,
                a_quarantine_loses_if_only_the_state_differs,
                a_quarantine_loses_if_only_the_version_differs,
                a_removal_loses_if_only_the_state_differs,
                a_removal_loses_if_only_the_version_differs,
                a_change_of_an_execution_loses_if_only_the_id_differs,
                a_quarantine_loses_if_only_the_id_differs,
                a_removal_loses_if_only_the_id_differs,
                a_cancel_loses_if_only_the_state_differs,
                a_cancel_loses_if_only_the_token_differs,
                a_plan_behind_a_run_loses_if_only_the_state_differs,
                a_plan_behind_a_run_loses_if_only_prev_differs,
                a_plan_behind_a_run_loses_if_only_next_differs,
                a_replacement_loses_if_only_the_id_differs,
                a_replacement_loses_if_only_the_state_differs,
                a_replacement_loses_if_only_the_token_differs,
                a_note_of_the_next_pause_end_loses_if_only_the_last_one_differs,
                a_withdrawal_loses_if_only_the_state_differs,
                a_withdrawal_loses_if_only_the_id_differs,
            }
            news {
                what_waits_is_news_once_if_it_is_due_soon,
                what_nodes_claim_is_no_news,
                a_change_of_a_client_is_news,
                a_cancel_is_news_for_who_runs_it_alone,
                what_a_node_tells_is_news_even_once_it_has_left,
            }
            requests {
                a_request_is_carried_out_once,
                two_who_carry_a_request_out_at_once_do_so_once,
                a_refused_request_leaves_nothing_but_its_reason,
                a_request_that_fails_is_left_as_it_was,
                requests_come_in_pages_by_their_ids,
                polls_tell_of_requests_as_long_as_they_wait_and_glances_once,
                requests_leave_with_the_ledger_once_they_have_ended,
            }
            enqueued {
                what_an_enqueued_execution_said_goes_with_it,
                an_enqueued_execution_has_no_schedule_and_is_claimed_like_any_other,
                a_keyed_execution_says_its_key,
                many_are_stored_in_the_order_of_their_payloads,
                an_enqueued_execution_is_due_when_it_is_said_to_be,
                those_of_one_job_are_claimed_in_one_batch,
                a_retry_keeps_payload_priority_and_fence,
                each_shard_brings_its_own_enqueued_executions,
                an_enqueued_claim_loses_if_only_the_token_differs,
                one_of_many_claimants_wins_an_enqueued_execution,
                an_enqueued_claim_that_was_given_up_is_lost_however_late_it_comes,
                an_unknown_claim_of_enqueued_executions_is_settled_by_itself,
                an_enqueued_execution_of_a_dead_node_is_taken_back,
                no_more_enqueued_executions_of_a_job_run_than_may,
                a_paused_job_holds_its_enqueued_executions,
                an_enqueued_execution_that_has_not_begun_is_cancelled,
                ended_ones_leave_with_the_retention_and_open_ones_stay,
                those_with_a_tag_are_found_by_it_until_they_leave,
                one_is_found_by_its_job_key_or_group,
                a_lane_is_kept_and_another_replaces_it,
                headers_come_with_each_attempt,
                a_queue_is_no_schedule,
                a_key_is_kept_until_its_execution_has_ended_for_good,
                what_waits_is_replaced_and_its_claim_under_way_is_lost,
                a_key_counts_within_its_period,
                a_cancel_of_another_key_or_tag_changes_nothing,
                a_retry_by_hand_needs_its_key,
                one_of_many_that_enqueue_one_key_stores_it,
                a_key_stays_with_an_execution_that_fails_meanwhile,
                one_with_more_attempts_than_a_page_is_removed_whole,
            }
            concurrency {
                no_more_of_a_job_run_than_may,
                an_end_and_a_hand_back_make_room,
                one_that_cannot_be_claimed_keeps_no_other_away,
                a_handler_beyond_its_limit_takes_room,
                a_pending_execution_counts_like_a_planned_one,
                other_jobs_are_claimed_beside_a_full_one,
                the_executions_of_a_dead_node_take_room_until_they_are_taken_back,
                a_claim_in_doubt_of_a_job_with_a_limit_is_given_up,
                the_latest_limit_counts,
                no_more_of_a_group_run_than_may,
                what_counts_is_noted_as_long_as_it_counts,
                a_group_without_room_keeps_no_other_away,
                no_more_begin_within_a_span_than_may,
                what_is_claimed_ahead_counts_from_when_it_begins,
                each_group_has_a_rate_of_its_own,
                one_that_was_handed_back_counts_once,
            }
            delays {
                the_end_of_a_run_says_when_the_next_is,
                an_attempt_that_follows_belongs_to_the_run,
                what_is_given_back_or_snoozed_goes_on,
                the_end_of_a_run_whose_node_died_says_when_the_next_is,
                a_handler_beyond_its_limit_has_not_ended,
                a_run_that_is_cancelled_before_it_began_has_ended,
                a_run_that_is_withdrawn_has_ended,
                no_run_follows_beyond_the_end,
                another_delay_counts_from_the_run_under_way,
                another_trigger_does_not_wait_for_the_run_under_way,
                a_start_that_is_put_off_during_a_run_is_kept,
                a_run_that_ended_by_a_clock_ahead_is_planned_anew,
                a_paused_schedule_is_planned_by_the_end_of_its_run,
                a_removed_schedule_stays_removed_when_its_run_ends,
                a_run_by_hand_plans_nothing,
            }
            timed_out {
                a_time_limit_is_stored_while_the_handler_runs_on,
                a_retry_waits_until_the_handler_has_returned,
                what_runs_on_is_released_with_its_nodes_end,
                what_runs_on_beyond_its_limit_can_be_asked_to_end,
                what_was_asked_to_end_is_not_tried_again_after_its_time,
                an_outcome_before_the_limit_keeps_the_limit_away,
            }
            covers {
                what_successes_cover_follows_without_a_gap,
                what_is_fired_once_stands_for_all_that_was_missed,
                what_has_not_ended_is_open,
                an_occurrence_that_failed_for_good_counts_once,
                a_span_goes_on_over_an_edit_and_a_removal,
                what_ran_ahead_of_a_new_generation_does_not_count,
                a_run_by_hand_moves_no_span,
                a_retry_by_hand_moves_the_span,
                another_schedules_success_is_none,
                of_very_many_that_were_left_out_the_newest_are_counted,
                what_retention_has_removed_is_no_success,
                an_execution_is_found_by_its_fire_time,
                the_first_fire_times_of_a_span_are_listed,
            }
            overlaps {
                a_skip_says_whether_its_holder_had_begun,
                an_occurrence_waits_while_another_is_under_way,
                what_may_overlap_is_claimed_beside_others,
                what_waits_for_its_retry_keeps_the_slot,
                what_runs_on_beyond_its_limit_keeps_the_slot,
                an_order_waits_for_the_slot_and_keeps_it,
                what_runs_keeps_the_slot_from_another_generation,
                what_would_overlap_is_passed_over,
                as_many_wait_as_may,
                what_is_next_replaces_what_runs,
                a_claim_in_doubt_is_given_up_while_the_slot_is_taken,
            }
            streaks {
                failures_in_a_row_are_a_streak_at_the_limit,
                deaths_are_a_streak_whether_or_not_failures_count,
                a_success_ends_a_streak,
                a_resume_ends_a_streak,
                another_trigger_ends_a_streak,
                what_was_cancelled_or_asked_for_belongs_to_no_streak,
                a_retry_by_hand_is_its_occurrences_outcome,
                what_waits_for_its_retry_has_not_failed,
                a_time_limit_counts_once_the_handler_is_gone,
                a_schedule_that_is_not_active_has_no_streak,
                the_pause_for_a_streak_loses_against_an_edit,
                the_pause_for_a_streak_loses_against_a_success,
                a_streak_reaches_beyond_many_skipped_occurrences,
                what_was_not_run_takes_no_place_of_a_failure,
                what_was_to_be_cancelled_as_its_node_died_is_no_death,
            }
            resolve {
                what_the_guard_still_matches_is_claimed_now,
                what_carries_the_token_is_won_and_not_claimed_again,
                what_another_took_is_lost,
                what_is_gone_is_lost,
                what_has_ended_is_lost,
                what_was_given_back_is_lost,
                a_pending_claim_is_resolved_by_its_token,
                a_batch_is_resolved_row_by_row,
            }
            awaited {
                an_execution_has_ended_once_no_attempt_may_follow,
                one_that_ran_out_of_time_has_ended_with_its_handler,
                many_are_asked_for_at_once_and_unknown_ones_left_out,
            }
            said {
                what_a_run_says_is_read_as_it_was_said_and_once,
                many_runs_say_something_in_one_call,
                a_run_that_has_lost_its_execution_says_nothing,
                a_run_that_has_ended_by_itself_says_its_last_words,
            }
            settle {
                a_start_moves_claimed_to_running,
                a_start_is_said_twice_without_harm,
                a_success_is_recorded,
                a_failure_is_recorded_with_its_error,
                an_outcome_is_said_twice_without_harm,
                an_execution_not_started_has_no_outcome,
                a_transactions_success_is_confirmed_and_nothing_else_is,
                what_somebody_cancelled_is_not_completed,
                a_checkpoint_is_its_holders_and_goes_on_with_the_next_attempt,
                a_result_is_stored_with_the_success_alone,
                a_retry_appears_with_the_failure,
                a_retry_is_not_made_twice,
                an_outcome_is_kept_though_its_retry_is_there_already,
                giving_back_leaves_it_pending_under_a_fresh_token,
                what_runs_but_has_not_begun_is_given_back_too,
                giving_back_is_said_twice_without_harm,
                an_old_token_claims_nothing_that_was_given_back,
                what_is_interrupted_waits_as_it_was_to_be_run_anew,
                an_execution_that_is_passed_on_waits_with_the_reason,
                a_snooze_leaves_the_same_attempt_pending_until_later,
                giving_up_is_a_failure_with_its_reason,
                failures_are_counted_apart_from_attempts,
                settlements_are_answered_in_order,
            }
            races {
                one_of_many_claimants_wins_each_occurrence,
                overlapping_batches_in_different_orders_win_each_row_once,
                one_of_many_claimants_wins_a_pending_execution,
                two_first_starts_on_an_empty_app_table_both_join,
                two_starts_with_a_new_job_both_join,
                one_of_many_candidates_is_elected,
                many_ensuring_at_once_leave_one_row,
                a_claim_and_a_pause_of_one_row_never_both_come_first,
                one_of_many_revocations_wins,
                one_of_many_takes_the_slot,
                no_more_of_many_win_than_may_run_at_once,
            }
            nobody {
                a_job_that_no_claiming_node_lists_is_found_while_it_has_something_to_run,
                what_waits_for_nobody_is_counted,
                a_paused_job_is_nobodys_no_longer,
                a_thousand_jobs_without_anything_to_run_hide_none,
                what_a_row_says_is_found_until_it_is_taken_back,
                a_poll_says_whether_some_job_is_not_listed,
                of_two_notes_of_one_sight_one_is_made,
            }
            nodes {
                a_beat_adds_one,
                a_beat_tells_of_peers_and_of_what_one_owns,
                a_beat_tells_what_each_peer_claims,
                a_beat_that_tells_says_what_a_node_cannot_run,
                a_node_that_withdraws_claims_nothing_more,
                an_ended_node_is_told_by_its_beat,
                an_unknown_node_is_told_by_its_beat,
                death_is_guarded_by_the_beat,
                a_node_leaves_once,
                the_nodes_are_shown,
                a_job_keeps_the_policy_of_the_latest_node,
                a_definition_leaves_the_policy_of_a_node_alone,
                a_definition_makes_the_missing_job_until_a_node_knows_better,
                a_job_is_described_by_the_latest_node,
                an_election_holds_for_its_interval,
                an_election_mark_far_ahead_counts_as_due,
                an_election_makes_the_missing_application,
            }
            stranded {
                executions_of_ended_nodes_are_stranded,
                executions_of_missing_nodes_are_stranded,
                an_execution_without_a_schedule_is_stranded_under_its_id,
                executions_of_live_nodes_are_not_stranded,
                what_nobody_owns_is_not_stranded,
                a_running_execution_is_abandoned_and_tried_again,
                a_running_execution_is_abandoned_for_good,
                the_deaths_before_an_attempt_are_counted,
                a_claimed_execution_goes_back_to_pending,
                a_page_of_revocations_takes_what_is_as_it_was_seen,
                a_revoked_token_finishes_nothing,
            }
            repairs {
                a_repair_moves_the_cursor_and_accounts_for_it,
                a_page_of_repairs_makes_those_whose_guards_match,
                a_repair_that_cannot_write_all_rows_changes_nothing,
                a_repair_without_a_next_fire_time_completes_the_schedule,
                a_repair_supersedes_the_unstarted_work_of_earlier_ones,
                a_repair_leaves_other_pendings_alone,
                a_resume_ends_a_pause,
                a_resume_with_nothing_left_completes_the_schedule,
                cursors_ahead_of_the_clock_are_found_and_planned_anew,
                a_cursor_that_a_skip_has_moved_stays_ahead,
                a_claim_in_hand_loses_to_a_repair,
                a_paused_row_is_not_repaired_as_misfire,
                error_rows_are_not_revived_by_repair,
                stalled_rows_are_those_before_the_threshold,
                stalled_rows_come_earliest_first_page_by_page,
                repair_leaves_rows_whose_handler_nobody_here_knows_alone,
                broken_rows_do_not_hide_the_stalled_pages_behind_them,
                rows_of_a_disabled_application_are_not_stalled,
            }
            cancelled {
                any_attempt_names_an_execution_that_was_tried_again,
                what_has_not_begun_is_cancelled_at_once,
                what_runs_is_asked_and_its_node_hears_of_it,
                nothing_follows_what_was_asked_to_end,
                another_applications_execution_is_unknown,
                requests_go_with_their_executions,
                what_has_ended_without_success_is_tried_again_by_hand,
                what_cannot_be_tried_again_says_why,
            }
            ordered {
                an_order_makes_an_execution_beside_those_planned,
                a_retry_keeps_the_orders_payload,
                an_order_runs_while_its_schedule_is_paused_or_complete,
                an_order_of_what_cannot_run_makes_nothing,
                a_removal_cancels_what_was_ordered,
            }
            listed {
                a_list_is_the_same_in_whatever_way_it_is_read,
                a_page_begins_behind_one_that_is_gone,
            }
            reruns {
                each_is_run_once_under_its_own_fire_time,
                a_rerun_leaves_out_what_another_does,
                what_is_tried_again_is_left_alone,
                occurrences_are_meant_by_state_reason_and_time,
                spans_of_an_earlier_trigger_are_run_by_that,
                what_ran_ahead_of_a_new_generation_is_left_alone,
                a_span_that_its_trigger_has_not_made_is_unknown,
                one_request_looks_at_a_thousand,
                a_rerun_covers_its_own_occurrence,
                a_backfill_runs_fire_times_from_before_the_schedule,
                a_backfill_leaves_out_what_has_succeeded,
                what_cannot_run_is_not_rerun,
                what_was_skipped_ahead_is_not_run_before_its_time,
                a_rerun_that_must_not_overlap_runs_in_order,
                a_rerun_ends_as_a_whole,
                a_rerun_ends_after_an_edit,
                a_removal_cancels_a_rerun,
                the_last_rerun_of_a_fire_time_is_found,
                a_rerun_ends_after_its_entry_in_the_audit_is_gone,
                retention_counts_from_the_end_of_a_rerun,
                two_reruns_at_once_run_nothing_twice,
            }
            removed {
                nothing_of_a_removed_schedule_is_claimed,
                what_runs_of_a_removed_schedule_ends_and_is_not_run_again,
                a_removed_schedule_that_is_made_again_is_a_new_one,
                a_row_nobody_understands_can_be_removed,
                a_removed_schedules_row_stays_until_its_ledger_is_gone,
            }
            withdrawn {
                another_trigger_withdraws_all_that_was_due,
                a_removal_withdraws_all_that_was_due,
                what_a_pause_held_back_is_withdrawn,
                nothing_follows_what_was_withdrawn_last,
                nothing_is_withdrawn_that_was_not_due,
                nothing_is_withdrawn_while_the_next_fire_time_is_not_known,
                what_has_a_row_is_not_withdrawn,
                a_cursor_set_back_by_hand_does_not_keep_an_edit_away,
                an_execution_says_how_many_withdrawn_ones_it_stands_for,
            }
            triggers {
                each_trigger_of_a_schedule_is_noted,
                a_cursor_that_is_planned_anew_begins_another_period,
                old_triggers_go_with_the_ledger,
                the_ledger_is_read_in_order_by_pages,
            }
            audit {
                a_change_is_recorded_if_it_is_made,
                a_definition_is_recorded_if_it_changes_something,
                the_audit_has_pages_without_gaps,
                the_audit_is_asked_for_by_what_it_holds,
                the_audit_is_kept_as_long_as_the_ledger,
            }
            broken {
                an_unknown_state,
                a_null_state,
                an_unknown_job_type,
                a_null_job_type,
                a_null_prev_fire_time,
                a_null_next_fire_time,
                a_next_fire_time_not_after_prev,
                an_active_row_without_a_next,
                an_unparsable_cron,
                a_null_cron,
                an_unknown_zone,
                an_interval_of_zero,
                a_negative_interval,
                a_repeat_count_below_minus_one,
                a_null_start,
                seconds_for_milliseconds,
                seconds_for_an_end_in_milliseconds,
                an_end_before_the_start,
                an_unknown_misfire_policy,
                an_unknown_rule_for_a_change_of_the_clocks,
                an_orphaned_pid,
                a_null_pid,
                healthy_rows_are_not_broken,
                broken_rows_are_found_page_by_page,
                a_step_looks_no_further_than_its_rows, what_is_due_at_the_instant_asked_about_is_not_overdue,
            }
            edited {
                numbers_at_their_ends_disturb_nobody,
                numbers_of_a_cron_row_at_their_ends_disturb_nobody,
                a_fence_that_can_grow_no_more_loses_its_own_claim,
                a_figure_for_people_does_not_overflow,
                pending_rows_at_the_ends_of_their_numbers_disturb_nobody,
                a_pending_row_beyond_the_calendar_is_left_alone,
                a_payload_nobody_can_decode_comes_as_it_is,
                a_quarantined_row_is_mended_by_a_changed_trigger,
                a_quarantined_row_is_not_called_unchanged,
                a_generation_that_cannot_grow_is_left_to_people,
                a_broken_row_is_found_with_its_reason,
                a_definition_nobody_could_understand_again_is_refused,
                a_beat_that_can_grow_no_more_ends_the_node,
            }
            definitions {
                a_new_schedule_without_a_fire_time_is_refused,
                a_new_schedule_waits_for_its_first_occurrence,
                a_new_schedule_does_not_fire_for_the_past,
                a_one_shot_in_the_past_is_left_to_the_misfire_policy,
                an_equal_definition_writes_nothing,
                an_unanchored_interval_equals_itself_whenever_it_is_ensured,
                a_payload_over_256_kib_is_refused,
                a_description_is_one_line_of_at_most_500_characters,
                a_changed_payload_leaves_the_cursor,
                a_changed_trigger_plans_anew,
                a_changed_trigger_with_nothing_left_completes_the_schedule,
                a_one_shot_moved_into_the_past_is_left_to_the_misfire_policy,
                a_one_shot_moved_behind_its_last_fire_time_keeps_it,
                a_recurring_trigger_is_not_planned_at_or_before_its_last_fire_time_again,
                a_changed_trigger_revives_a_complete_schedule,
                a_changed_trigger_leaves_a_pause,
                a_definition_reads_back_as_it_was_written,
                names_are_apart_by_application,
                an_unknown_name_is_not_found,
                a_pause_ends_planned_claims,
                a_pause_is_not_made_twice,
                a_complete_schedule_cannot_be_paused,
                schedules_are_shown,
                executions_are_shown_newest_first,
                late_executions_are_shown_the_longest_due_first,
                a_definition_that_asks_for_another_row_changes_nothing,
                one_of_many_new_definitions_of_a_name_makes_it,
            }
            polls {
                the_windows_edge_is_exclusive,
                overdue_rows_are_visible_to_the_poll,
                overdue_pendings_are_visible_to_the_poll,
                schedules_come_earliest_first,
                pendings_come_earliest_first,
                pages_follow_one_another,
                pages_of_one_section_follow_one_another,
                the_first_pages_have_rows_of_every_job,
                rows_that_are_due_come_beside_overdue_ones_of_their_job,
                a_large_payload_is_left_out_and_fetched_by_itself,
                a_page_looks_at_no_more_pendings_than_it_holds,
                pages_of_pendings_follow_one_another,
                a_poll_brings_its_shards_and_the_names_it_asks_for,
                pendings_come_with_their_schedules_shards,
                pages_of_several_shares_follow_one_another,
                what_is_late_anywhere_is_told,
                the_earliest_fire_time_of_listed_active_jobs_is_told,
                what_is_due_before_the_beginning_is_not_looked_for,
                the_election_mark_is_told,
                a_row_nobody_understands_does_not_end_the_pages,
                rows_of_unknown_jobs_are_left_alone,
                rows_of_paused_jobs_are_left_alone,
                rows_of_other_applications_are_left_alone,
                paused_and_complete_rows_are_left_alone,
                a_disabled_application_is_told,
                a_disabled_node_is_told,
                the_databases_time_is_told,
            }
            traps {
                a_claim_leaves_a_row_so_a_crash_loses_no_run,
                a_node_is_not_its_ip_address,
                repair_does_not_update_where_id_alone,
                a_row_another_node_fired_and_rearmed_is_not_fired_again,
            }
            ledger {
                claims_leave_no_gap,
                claims_and_repairs_together_leave_no_gap,
                a_changed_trigger_begins_a_ledger_of_its_own,
            }
            purge {
                an_occurrence_goes_with_all_its_attempts,
                what_was_said_goes_with_its_execution,
                what_ended_within_the_span_stays,
                a_pending_occurrence_and_all_behind_it_stay,
                a_claimed_occurrence_and_all_behind_it_stay,
                a_running_occurrence_and_all_behind_it_stay,
                an_occurrence_that_waits_for_its_retry_stays_whole,
                the_mark_moves_with_what_goes,
                a_step_removes_no_more_than_its_limit,
                a_walk_comes_by_every_schedule,
                other_applications_keep_theirs,
                what_stays_has_no_gap,
                all_generations_that_ended_long_ago_go_in_one_walk,
                an_open_occurrence_holds_its_generation_alone,
                an_open_first_occurrence_holds_its_generation_alone,
                a_one_shot_goes_once_its_execution_is_gone,
                a_one_shot_without_a_ledger_does_not_run_again,
                executions_of_a_deleted_schedule_go_after_the_retention,
                fences_go_on_under_a_name_that_was_removed,
                a_fence_beyond_all_sense_leaves_room_for_others,
                a_single_interval_does_not_run_again,
                a_mark_in_the_future_lets_a_new_one_shot_run,
                a_node_that_ended_long_ago_goes_unless_an_execution_names_it,
                what_was_asked_for_goes_beside_what_is_planned,
                purges_at_once_remove_each_occurrence_once,
            }
            switched {
                a_paused_job_brings_nothing_until_it_is_resumed,
                a_node_drains_and_says_when_it_has,
                a_paused_application_says_so_to_polls,
                an_application_is_paused_before_its_first_node,
                a_pause_before_the_first_node_ends_by_itself,
                a_switch_loses_if_only_one_of_its_values_differs,
                what_a_pause_held_back_is_passed_as_paused,
                pauses_whose_time_is_up_are_found_until_they_have_ended,
            }
            synced {
                a_sync_makes_what_is_missing_changes_what_differs_and_removes_the_rest,
                an_equal_sync_writes_nothing,
                a_lower_revision_writes_nothing_while_a_higher_one_is_known,
                the_same_revision_writes_what_differs,
                another_owners_schedules_are_never_touched,
                what_is_nobodys_is_adopted_as_it_is,
                what_an_operator_changed_stays_until_it_is_given_back,
                each_field_is_an_operators_by_itself,
                a_pause_survives_a_sync,
                a_sync_withdraws_what_was_due,
                a_sync_that_cannot_be_made_leaves_nothing,
                of_syncs_at_once_the_higher_revision_stays,
                of_two_owners_at_once_one_has_the_name,
            }
            waiting { payloads_that_wait_are_found_once_by_steps_of_any_size, }
        }
    };
}

/// The cases of a database whose rows can be locked one by one.
macro_rules! conformance_of_row_locks {
    ($database:ident, $fixture:ty) => {
        $crate::store::conformance::for_each_case! { $database, $fixture;
            claims { a_locked_row_is_skipped_and_the_others_win, }
            resolve {
                a_locked_row_stays_in_doubt_and_the_others_do_not,
                what_carries_the_token_is_won_although_its_row_is_locked,
                nothing_is_claimed_by_a_node_that_is_off,
                a_claim_that_was_given_up_is_lost_however_late_it_comes,
            }
            repairs { a_locked_row_is_left_out_of_a_page_of_repairs, }
            streaks { the_pause_for_a_streak_waits_for_nobody_who_holds_the_row, }
            said { what_a_held_execution_says_waits_for_nobody, }
            settle { a_held_execution_holds_up_no_outcome_of_another, }
            delays { the_end_of_a_run_does_not_wait_for_a_held_row, }
            concurrency { a_held_row_of_a_job_keeps_its_own_claims_waiting_and_no_others, }
            enqueued { a_held_enqueued_execution_is_skipped_and_the_others_win, }
            requests { a_held_request_is_left_to_its_holder, }
            synced { a_sync_waits_for_no_row_that_stays_as_it_is, }
        }
    };
}

macro_rules! for_each_case {
    ($database:ident, $fixture:ty; $($theme:ident { $($case:ident,)+ })+) => {
        mod $database {
            use super::*;

            #[allow(dead_code, reason = "only the model's tests run the whole list")]
            pub(super) const CASES: &[fn(&$crate::store::conformance::Bench)] =
                &[$($($crate::store::conformance::$theme::$case,)+)+];

            $(mod $theme {
                use super::*;

                $(#[test]
                fn $case() {
                    $crate::store::conformance::run::<$fixture>($crate::store::conformance::$theme::$case);
                })+
            })+
        }
    };
}

pub(crate) use {conformance, conformance_of_row_locks, for_each_case};
