-- Written by hand: extensions here; compression, function and triggers at the end. The rest is generated from src/db/schema/.
CREATE EXTENSION IF NOT EXISTS pg_trgm;--> statement-breakpoint
CREATE EXTENSION IF NOT EXISTS btree_gin;--> statement-breakpoint
CREATE TABLE "api_keys" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"prefix" text NOT NULL,
	"digest" "bytea" NOT NULL,
	"created_by" text,
	"permissions" text DEFAULT 'full' NOT NULL,
	"account_ids" text[],
	"issued_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone,
	"last_used_at" timestamp (3) with time zone,
	CONSTRAINT "api_keys_prefix_unique" UNIQUE("prefix"),
	CONSTRAINT "api_keys_digest_unique" UNIQUE("digest")
);
--> statement-breakpoint
CREATE TABLE "audit_records" (
	"id" text PRIMARY KEY NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"action" text NOT NULL,
	"status" smallint NOT NULL,
	"api_key_id" text,
	"address" text NOT NULL,
	"request_id" text NOT NULL,
	"object_id" text
);
--> statement-breakpoint
CREATE TABLE "auth_links" (
	"id" text PRIMARY KEY NOT NULL,
	"digest" "bytea" NOT NULL,
	"redirect_url" text,
	"state" text,
	"name" text,
	"account_id" text,
	"config" jsonb NOT NULL,
	"api_key_id" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"attempts_from" timestamp (3) with time zone,
	"busy_until" timestamp (3) with time zone,
	"used_at" timestamp (3) with time zone,
	"connected_id" text,
	CONSTRAINT "auth_links_digest_unique" UNIQUE("digest")
);
--> statement-breakpoint
CREATE TABLE "idempotency_keys" (
	"api_key_id" text NOT NULL,
	"key" text NOT NULL,
	"fingerprint" "bytea" NOT NULL,
	"reserved_id" text,
	"status" smallint,
	"response" "bytea",
	"account_id" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "idempotency_keys_api_key_id_key_pk" PRIMARY KEY("api_key_id","key")
);
--> statement-breakpoint
CREATE TABLE "sessions" (
	"digest" "bytea" PRIMARY KEY NOT NULL,
	"api_key_id" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "accounts" (
	"id" text PRIMARY KEY NOT NULL,
	"user_id" text NOT NULL,
	"name" text NOT NULL,
	"mailbox_key" text NOT NULL,
	"status" text DEFAULT 'running' NOT NULL,
	"status_detail" text DEFAULT '' NOT NULL,
	"metadata" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"imap_host" text NOT NULL,
	"imap_port" integer NOT NULL,
	"imap_user" text NOT NULL,
	"imap_encryption" text NOT NULL,
	"smtp_host" text NOT NULL,
	"smtp_port" integer NOT NULL,
	"smtp_user" text NOT NULL,
	"smtp_encryption" text NOT NULL,
	"credentials" "bytea" NOT NULL,
	"data_key" "bytea",
	"created_at" timestamp (3) with time zone NOT NULL,
	"connected_at" timestamp (3) with time zone NOT NULL,
	"last_synced_at" timestamp (3) with time zone,
	"watch_failure" text DEFAULT '' NOT NULL,
	"not_in_sync_since" timestamp (3) with time zone,
	"verified_at" timestamp (3) with time zone,
	"differences_found" integer DEFAULT 0 NOT NULL,
	"initial_sync_status" text,
	"initial_sync_started_at" timestamp (3) with time zone,
	"initial_sync_completed_at" timestamp (3) with time zone,
	"initial_sync_days" smallint,
	"initial_sync_imported" integer DEFAULT 0 NOT NULL,
	"watch_epoch" bigint DEFAULT 0 NOT NULL,
	"watched_by" text,
	"event_sequence" bigint DEFAULT 0 NOT NULL,
	"storage_swept_at" timestamp (3) with time zone,
	"storage_sweep_after" text,
	"removed_at" timestamp (3) with time zone,
	CONSTRAINT "accounts_status" CHECK (status in ('running', 'errored', 'disconnected'))
);
--> statement-breakpoint
CREATE TABLE "connect_intents" (
	"id" text PRIMARY KEY NOT NULL,
	"intent" "bytea" NOT NULL,
	"account_id" text,
	"created_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "attachments" (
	"id" text PRIMARY KEY NOT NULL,
	"email_id" text NOT NULL,
	"account_id" text NOT NULL,
	"name" text NOT NULL,
	"mime" text NOT NULL,
	"size" bigint NOT NULL,
	"storage_key" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "contacts" (
	"account_id" text NOT NULL,
	"address" text NOT NULL,
	"display_name" text,
	"last_contacted_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "contacts_account_id_address_pk" PRIMARY KEY("account_id","address")
);
--> statement-breakpoint
CREATE TABLE "email_contents" (
	"email_id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"body" json NOT NULL,
	"body_plain" json NOT NULL,
	"body_new" json,
	"head" text,
	"headers" json NOT NULL,
	"attachments" json NOT NULL
);
--> statement-breakpoint
CREATE TABLE "email_search" (
	"email_id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"date" timestamp (3) with time zone NOT NULL,
	"text" text NOT NULL,
	"subject" text NOT NULL,
	"from_address" text NOT NULL,
	"to_addresses" text[] NOT NULL
);
--> statement-breakpoint
CREATE TABLE "emails" (
	"id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"thread_id" text NOT NULL,
	"date" timestamp (3) with time zone NOT NULL,
	"message_id" text,
	"subject" text NOT NULL,
	"from_attendee" jsonb NOT NULL,
	"to_attendees" jsonb NOT NULL,
	"cc_attendees" jsonb NOT NULL,
	"bcc_attendees" jsonb NOT NULL,
	"reply_to_attendees" jsonb NOT NULL,
	"has_attachments" boolean NOT NULL,
	"is_unread" boolean NOT NULL,
	"is_draft" boolean DEFAULT false NOT NULL,
	"draft_id" text,
	"origin" text DEFAULT 'external' NOT NULL,
	"is_echo" boolean DEFAULT false NOT NULL,
	"sent_by" jsonb,
	"tracking_id" text,
	"bounce" jsonb,
	"complaint" jsonb,
	"auto_reply" text,
	"calendar" jsonb,
	"is_complete" boolean DEFAULT true NOT NULL,
	"reparses" smallint DEFAULT 0 NOT NULL,
	"size" bigint NOT NULL,
	"internal_date" timestamp (3) with time zone NOT NULL,
	"subject_key" text,
	"storage_key" text NOT NULL,
	"missing_since" timestamp (3) with time zone,
	"reported_folders" text[],
	"created_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "thread_keys" (
	"account_id" text NOT NULL,
	"key" text NOT NULL,
	"thread_id" text NOT NULL,
	CONSTRAINT "thread_keys_account_id_key_pk" PRIMARY KEY("account_id","key")
);
--> statement-breakpoint
CREATE TABLE "threads" (
	"id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"merged_into" text
);
--> statement-breakpoint
CREATE TABLE "folders" (
	"id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"path" text NOT NULL,
	"delimiter" text,
	"name" text NOT NULL,
	"parent_id" text,
	"role" text DEFAULT 'UNKNOWN' NOT NULL,
	"selectable" boolean DEFAULT true NOT NULL,
	"uid_validity" bigint,
	"baseline_uid_next" bigint,
	"uid_next" bigint,
	"highest_modseq" text,
	"scanned_from" bigint,
	"total_count" integer DEFAULT 0 NOT NULL,
	"unread_count" integer DEFAULT 0 NOT NULL,
	"known_count" integer DEFAULT 0 NOT NULL,
	"vacating" text,
	"vacated_to" bigint,
	"renumbering" jsonb,
	"local_revision" bigint DEFAULT 0 NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "folders_vacating" CHECK (vacating in ('deletion', 'noselect'))
);
--> statement-breakpoint
CREATE TABLE "locations" (
	"folder_id" text NOT NULL,
	"uid" bigint NOT NULL,
	"account_id" text NOT NULL,
	"email_id" text,
	"date" timestamp (3) with time zone,
	"seen" boolean NOT NULL,
	"deleted" boolean DEFAULT false NOT NULL,
	"vanished_at" timestamp (3) with time zone,
	"pending_removal_since" timestamp (3) with time zone,
	"identity" text NOT NULL,
	"weak_identity" text NOT NULL,
	"server_id" text,
	CONSTRAINT "locations_folder_id_uid_pk" PRIMARY KEY("folder_id","uid")
);
--> statement-breakpoint
CREATE TABLE "path_reservations" (
	"account_id" text NOT NULL,
	"path" text NOT NULL,
	"folder_id" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "path_reservations_account_id_path_pk" PRIMARY KEY("account_id","path")
);
--> statement-breakpoint
CREATE TABLE "finished_runs" (
	"run_id" text PRIMARY KEY NOT NULL,
	"finished_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "installation" (
	"name" text PRIMARY KEY NOT NULL,
	"value" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "login_budgets" (
	"host" text PRIMARY KEY NOT NULL,
	"next_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "workers" (
	"id" text PRIMARY KEY NOT NULL,
	"seen_at" timestamp (3) with time zone NOT NULL,
	"started_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"watches" integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "drafts" (
	"id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"email_id" text,
	"message_id" text,
	"state" text DEFAULT 'active' NOT NULL,
	"superseded_by" text,
	"held_by" text,
	"input_key" text,
	"metadata" text,
	"tracking_id" text,
	"tracking" jsonb,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "drafts_state" CHECK (state in ('saving', 'active', 'superseded', 'sent', 'deleted', 'failed'))
);
--> statement-breakpoint
CREATE TABLE "sends" (
	"id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"message_id" text,
	"draft_id" text,
	"api_key_id" text NOT NULL,
	"api_key_name" text NOT NULL,
	"metadata" text,
	"tracking_id" text,
	"tracking" jsonb,
	"state" text DEFAULT 'queued' NOT NULL,
	"input_key" text,
	"storage_key" text,
	"email" json,
	"result" jsonb,
	"copy_ingested_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "sends_state" CHECK (state in ('queued', 'submitting', 'sent', 'unknown', 'failed'))
);
--> statement-breakpoint
CREATE TABLE "tracking_records" (
	"id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"email_id" text NOT NULL,
	"message_id" text NOT NULL,
	"label" text,
	"opens" boolean NOT NULL,
	"links" jsonb NOT NULL,
	"hit_minute" timestamp (3) with time zone,
	"hits_in_minute" integer DEFAULT 0 NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "deliveries" (
	"id" text PRIMARY KEY NOT NULL,
	"event_id" text NOT NULL,
	"endpoint_id" text NOT NULL,
	"endpoint_url" text NOT NULL,
	"account_id" text NOT NULL,
	"event_type" text NOT NULL,
	"object_id" text NOT NULL,
	"sequence" bigint DEFAULT 0 NOT NULL,
	"test" boolean DEFAULT false NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	"attempts_count" integer DEFAULT 0 NOT NULL,
	"schedule_from" integer DEFAULT 0 NOT NULL,
	"http_status" integer,
	"response_body" text,
	"error" text,
	"error_kind" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"last_attempt_at" timestamp (3) with time zone,
	"next_attempt_at" timestamp (3) with time zone,
	"forced" boolean DEFAULT false NOT NULL,
	"held" boolean DEFAULT false NOT NULL,
	"workflow_id" text,
	"last_workflow_id" text,
	"run_id" text,
	"runs" integer DEFAULT 0 NOT NULL,
	"claimed_at" timestamp (3) with time zone,
	"started_at" timestamp (3) with time zone,
	"replay_id" text,
	"status_before_replay" text,
	CONSTRAINT "deliveries_status" CHECK (status in ('pending', 'delivered', 'failed', 'skipped'))
);
--> statement-breakpoint
CREATE TABLE "delivery_attempts" (
	"delivery_id" text NOT NULL,
	"number" integer NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"http_status" integer,
	"response_body" text,
	"error" text,
	"error_kind" text,
	"duration_ms" integer NOT NULL,
	CONSTRAINT "delivery_attempts_delivery_id_number_pk" PRIMARY KEY("delivery_id","number")
);
--> statement-breakpoint
CREATE TABLE "events" (
	"id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"type" text NOT NULL,
	"sequence" bigint NOT NULL,
	"object_id" text NOT NULL,
	"data" text NOT NULL,
	"test" boolean DEFAULT false NOT NULL,
	"position" bigint DEFAULT greatest(pg_current_xact_id()::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1),
	"created_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "replays" (
	"id" text PRIMARY KEY NOT NULL,
	"endpoint_id" text NOT NULL,
	"filter" jsonb NOT NULL,
	"status" text DEFAULT 'running' NOT NULL,
	"total" integer DEFAULT 0 NOT NULL,
	"delivered" integer DEFAULT 0 NOT NULL,
	"failed" integer DEFAULT 0 NOT NULL,
	"skipped" integer DEFAULT 0 NOT NULL,
	"cursor" text,
	"behind" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"queued_all_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone NOT NULL,
	"completed_at" timestamp (3) with time zone,
	CONSTRAINT "replays_status" CHECK (status in ('running', 'completed', 'cancelled'))
);
--> statement-breakpoint
CREATE TABLE "webhook_endpoints" (
	"id" text PRIMARY KEY NOT NULL,
	"url" text NOT NULL,
	"description" text,
	"enabled" boolean DEFAULT true NOT NULL,
	"disabled_reason" text,
	"trigger_events" text[] NOT NULL,
	"account_ids" text[] NOT NULL,
	"headers" "bytea" NOT NULL,
	"secret" "bytea" NOT NULL,
	"previous_secret" "bytea",
	"previous_secret_until" timestamp (3) with time zone,
	"failures_in_a_row" integer DEFAULT 0 NOT NULL,
	"breaker_until" timestamp (3) with time zone,
	"breaker_openings" integer DEFAULT 0 NOT NULL,
	"breaker_probe_at" timestamp (3) with time zone,
	"failing_since" timestamp (3) with time zone,
	"failed_attempts" integer DEFAULT 0 NOT NULL,
	"last_success_at" timestamp (3) with time zone,
	"warned_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_api_key_id_api_keys_id_fk" FOREIGN KEY ("api_key_id") REFERENCES "public"."api_keys"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "audit_records_at" ON "audit_records" USING btree ("at","id");--> statement-breakpoint
CREATE INDEX "audit_records_action" ON "audit_records" USING btree ("action","at","id");--> statement-breakpoint
CREATE INDEX "audit_records_key" ON "audit_records" USING btree ("api_key_id","at","id");--> statement-breakpoint
CREATE INDEX "audit_records_object" ON "audit_records" USING btree ("object_id","at","id");--> statement-breakpoint
CREATE INDEX "auth_links_expires" ON "auth_links" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "auth_links_created" ON "auth_links" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "auth_links_open" ON "auth_links" USING btree ("created_at","id") WHERE "auth_links"."used_at" is null;--> statement-breakpoint
CREATE INDEX "auth_links_account" ON "auth_links" USING btree ("account_id") WHERE "auth_links"."account_id" is not null;--> statement-breakpoint
CREATE INDEX "auth_links_connected" ON "auth_links" USING btree ("connected_id") WHERE "auth_links"."connected_id" is not null;--> statement-breakpoint
CREATE INDEX "idempotency_keys_created" ON "idempotency_keys" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "idempotency_keys_account" ON "idempotency_keys" USING btree ("account_id") WHERE account_id is not null;--> statement-breakpoint
CREATE INDEX "sessions_api_key" ON "sessions" USING btree ("api_key_id");--> statement-breakpoint
CREATE INDEX "sessions_expires" ON "sessions" USING btree ("expires_at");--> statement-breakpoint
CREATE UNIQUE INDEX "accounts_mailbox" ON "accounts" USING btree ("mailbox_key") WHERE removed_at is null;--> statement-breakpoint
CREATE INDEX "accounts_created" ON "accounts" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "attachments_email" ON "attachments" USING btree ("email_id");--> statement-breakpoint
CREATE INDEX "attachments_account" ON "attachments" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "contacts_recent" ON "contacts" USING btree ("account_id","last_contacted_at","address");--> statement-breakpoint
CREATE INDEX "email_contents_account" ON "email_contents" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "email_search_list" ON "email_search" USING btree ("account_id","date","email_id");--> statement-breakpoint
CREATE INDEX "email_search_text" ON "email_search" USING gin ("account_id","text" gin_trgm_ops);--> statement-breakpoint
CREATE INDEX "email_search_subject" ON "email_search" USING gin ("account_id","subject" gin_trgm_ops);--> statement-breakpoint
CREATE INDEX "email_search_from" ON "email_search" USING btree ("account_id","from_address","date","email_id");--> statement-breakpoint
CREATE INDEX "email_search_to" ON "email_search" USING gin ("account_id","to_addresses");--> statement-breakpoint
CREATE INDEX "emails_list" ON "emails" USING btree ("account_id","date","id") WHERE not is_draft;--> statement-breakpoint
CREATE INDEX "emails_drafts" ON "emails" USING btree ("account_id","date","id") WHERE is_draft;--> statement-breakpoint
CREATE INDEX "emails_unread" ON "emails" USING btree ("account_id","date","id") WHERE is_unread and not is_draft;--> statement-breakpoint
CREATE INDEX "emails_with_attachments" ON "emails" USING btree ("account_id","date","id") WHERE has_attachments and not is_draft;--> statement-breakpoint
CREATE INDEX "emails_thread" ON "emails" USING btree ("thread_id","date","id");--> statement-breakpoint
CREATE INDEX "emails_message_id" ON "emails" USING btree ("account_id","message_id");--> statement-breakpoint
CREATE INDEX "emails_api_storage_key" ON "emails" USING btree ("storage_key") WHERE origin = 'api';--> statement-breakpoint
CREATE INDEX "emails_subject_key" ON "emails" USING btree ("account_id","subject_key","date") WHERE subject_key is not null;--> statement-breakpoint
CREATE INDEX "emails_incomplete" ON "emails" USING btree ("account_id","id") WHERE not is_complete;--> statement-breakpoint
CREATE INDEX "emails_missing" ON "emails" USING btree ("account_id") WHERE missing_since is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "emails_draft_id" ON "emails" USING btree ("draft_id") WHERE draft_id is not null;--> statement-breakpoint
CREATE INDEX "emails_untied_bounces" ON "emails" USING btree ("account_id",(bounce ->> 'message_id')) WHERE bounce is not null and bounce ->> 'email_id' is null;--> statement-breakpoint
CREATE INDEX "thread_keys_thread" ON "thread_keys" USING btree ("thread_id");--> statement-breakpoint
CREATE INDEX "threads_account" ON "threads" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "threads_merged" ON "threads" USING btree ("merged_into");--> statement-breakpoint
CREATE UNIQUE INDEX "folders_path" ON "folders" USING btree ("account_id","path");--> statement-breakpoint
CREATE INDEX "locations_list" ON "locations" USING btree ("folder_id","date","email_id") WHERE email_id is not null;--> statement-breakpoint
CREATE INDEX "locations_email" ON "locations" USING btree ("email_id");--> statement-breakpoint
CREATE INDEX "locations_identity" ON "locations" USING btree ("account_id","weak_identity");--> statement-breakpoint
CREATE INDEX "locations_vanished" ON "locations" USING btree ("account_id") WHERE vanished_at is not null;--> statement-breakpoint
CREATE INDEX "locations_pending_removal" ON "locations" USING btree ("account_id") WHERE pending_removal_since is not null;--> statement-breakpoint
CREATE INDEX "locations_server_id" ON "locations" USING btree ("account_id","server_id") WHERE server_id is not null;--> statement-breakpoint
CREATE INDEX "finished_runs_at" ON "finished_runs" USING btree ("finished_at");--> statement-breakpoint
CREATE INDEX "drafts_email" ON "drafts" USING btree ("email_id");--> statement-breakpoint
CREATE INDEX "drafts_account" ON "drafts" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "drafts_message_id" ON "drafts" USING btree ("account_id","message_id");--> statement-breakpoint
CREATE INDEX "drafts_reserved" ON "drafts" USING btree ("held_by") WHERE held_by is not null;--> statement-breakpoint
CREATE INDEX "drafts_not_active" ON "drafts" USING btree ("updated_at") WHERE state <> 'active';--> statement-breakpoint
CREATE INDEX "sends_message_id" ON "sends" USING btree ("account_id","message_id");--> statement-breakpoint
CREATE INDEX "sends_unsent" ON "sends" USING btree ("updated_at") WHERE state in ('queued', 'failed', 'unknown');--> statement-breakpoint
CREATE INDEX "sends_created" ON "sends" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "tracking_records_account" ON "tracking_records" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "tracking_records_created" ON "tracking_records" USING btree ("created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "deliveries_event" ON "deliveries" USING btree ("event_id","endpoint_id");--> statement-breakpoint
CREATE INDEX "deliveries_unclaimed" ON "deliveries" USING btree ("endpoint_id",((replay_id is not null)::int),"next_attempt_at" NULLS FIRST,"id") WHERE status = 'pending' and workflow_id is null and not held;--> statement-breakpoint
CREATE INDEX "deliveries_held" ON "deliveries" USING btree ("endpoint_id","object_id","sequence") WHERE held and status = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_order" ON "deliveries" USING btree ("endpoint_id","object_id","sequence") WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_under_way" ON "deliveries" USING btree ("endpoint_id","object_id","sequence") WHERE status = 'pending' and workflow_id is not null;--> statement-breakpoint
CREATE INDEX "deliveries_run" ON "deliveries" USING btree ("workflow_id") WHERE status = 'pending' and workflow_id is not null;--> statement-breakpoint
CREATE INDEX "deliveries_forced" ON "deliveries" USING btree ("endpoint_id","id") WHERE forced and status = 'pending' and workflow_id is null and not held;--> statement-breakpoint
CREATE INDEX "deliveries_retrying" ON "deliveries" USING btree ("endpoint_id") WHERE status = 'pending' and workflow_id is not null and next_attempt_at is not null;--> statement-breakpoint
CREATE INDEX "deliveries_replay" ON "deliveries" USING btree ("replay_id","status","held") WHERE replay_id is not null;--> statement-breakpoint
CREATE INDEX "deliveries_object" ON "deliveries" USING btree ("object_id","created_at","id");--> statement-breakpoint
CREATE INDEX "deliveries_unstarted" ON "deliveries" USING btree ("claimed_at") WHERE status = 'pending' and started_at is null;--> statement-breakpoint
CREATE INDEX "deliveries_endpoint" ON "deliveries" USING btree ("endpoint_id","created_at","id");--> statement-breakpoint
CREATE INDEX "deliveries_endpoint_type" ON "deliveries" USING btree ("endpoint_id","event_type","created_at","id");--> statement-breakpoint
CREATE INDEX "deliveries_type" ON "deliveries" USING btree ("event_type","created_at","id");--> statement-breakpoint
CREATE INDEX "deliveries_created" ON "deliveries" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "deliveries_open" ON "deliveries" USING btree ("status","created_at","id") WHERE status <> 'delivered';--> statement-breakpoint
CREATE INDEX "deliveries_account" ON "deliveries" USING btree ("account_id","created_at","id");--> statement-breakpoint
CREATE UNIQUE INDEX "events_sequence" ON "events" USING btree ("account_id","sequence") WHERE not test;--> statement-breakpoint
CREATE INDEX "events_feed" ON "events" USING btree ("type","position","account_id","sequence");--> statement-breakpoint
CREATE INDEX "events_account_feed" ON "events" USING btree ("account_id","type","position","sequence");--> statement-breakpoint
CREATE INDEX "events_created" ON "events" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "events_object" ON "events" USING btree ("object_id");--> statement-breakpoint
CREATE INDEX "replays_created" ON "replays" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "replays_running" ON "replays" USING btree ("endpoint_id") WHERE status = 'running';--> statement-breakpoint
-- Large values: lz4 where the server has it, else uncompressed; pglz would take most of the time of lists and searches.
DO $$
BEGIN
	ALTER TABLE "email_contents"
		ALTER COLUMN "body" SET COMPRESSION lz4,
		ALTER COLUMN "body_plain" SET COMPRESSION lz4,
		ALTER COLUMN "body_new" SET COMPRESSION lz4,
		ALTER COLUMN "headers" SET COMPRESSION lz4,
		ALTER COLUMN "head" SET COMPRESSION lz4;
	ALTER TABLE "email_search" ALTER COLUMN "text" SET COMPRESSION lz4;
	ALTER TABLE "events" ALTER COLUMN "data" SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
	ALTER TABLE "email_contents"
		ALTER COLUMN "body" SET STORAGE EXTERNAL,
		ALTER COLUMN "body_plain" SET STORAGE EXTERNAL,
		ALTER COLUMN "body_new" SET STORAGE EXTERNAL,
		ALTER COLUMN "headers" SET STORAGE EXTERNAL,
		ALTER COLUMN "head" SET STORAGE EXTERNAL;
	ALTER TABLE "email_search" ALTER COLUMN "text" SET STORAGE EXTERNAL;
	ALTER TABLE "events" ALTER COLUMN "data" SET STORAGE EXTERNAL;
END $$;--> statement-breakpoint
-- The end of a delivery clears the mark `held` of the next delivery of its object, see src/webhooks/claim-objects.ts.
-- Volatile, so that each statement in it sees what was committed before; a delivery that another transaction changed in the
-- meantime is read again.
CREATE FUNCTION "let_next_delivery_go"() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	next_sequence bigint;
BEGIN
	LOOP
		SELECT sequence INTO next_sequence FROM deliveries
			WHERE held AND status = 'pending' AND endpoint_id = OLD.endpoint_id AND object_id = OLD.object_id
				AND sequence > OLD.sequence
			ORDER BY sequence LIMIT 1;
		EXIT WHEN NOT FOUND;
		UPDATE deliveries SET held = false
			WHERE held AND status = 'pending' AND endpoint_id = OLD.endpoint_id AND object_id = OLD.object_id
				AND sequence = next_sequence;
		EXIT WHEN FOUND;
	END LOOP;
	RETURN NULL;
END
$$;--> statement-breakpoint
CREATE TRIGGER "deliveries_ended" AFTER UPDATE OF "status" ON "deliveries" FOR EACH ROW
	WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION "let_next_delivery_go"();--> statement-breakpoint
CREATE TRIGGER "deliveries_deleted" AFTER DELETE ON "deliveries" FOR EACH ROW
	WHEN (OLD.status = 'pending') EXECUTE FUNCTION "let_next_delivery_go"();
