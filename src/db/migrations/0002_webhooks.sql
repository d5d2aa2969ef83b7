CREATE TABLE "installation" (
	"name" text PRIMARY KEY NOT NULL,
	"value" text NOT NULL
);
--> statement-breakpoint
DROP INDEX "deliveries_unclaimed";--> statement-breakpoint
DROP INDEX "events_sequence";--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "created_by" text;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "sequence" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "test" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "schedule_from" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "error_kind" text;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "forced" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "last_workflow_id" text;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "run_id" text;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "runs" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "replay_id" text;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "status_before_replay" text;--> statement-breakpoint
ALTER TABLE "delivery_attempts" ADD COLUMN "error_kind" text;--> statement-breakpoint
ALTER TABLE "events" ADD COLUMN "position" bigint DEFAULT greatest(pg_current_xact_id()::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1);--> statement-breakpoint
ALTER TABLE "replays" ADD COLUMN "skipped" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "replays" ADD COLUMN "cursor" text;--> statement-breakpoint
ALTER TABLE "replays" ADD COLUMN "queued_all_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD COLUMN "failures_in_a_row" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD COLUMN "breaker_until" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD COLUMN "breaker_openings" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD COLUMN "breaker_probe_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD COLUMN "failing_since" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD COLUMN "failed_attempts" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD COLUMN "last_success_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD COLUMN "warned_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "workers" ADD COLUMN "started_at" timestamp (3) with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "workers" ADD COLUMN "watches" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX "deliveries_order" ON "deliveries" USING btree ("endpoint_id","object_id","sequence") WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_run" ON "deliveries" USING btree ("workflow_id") WHERE status = 'pending' and workflow_id is not null;--> statement-breakpoint
CREATE INDEX "deliveries_forced" ON "deliveries" USING btree ("endpoint_id","id") WHERE forced and status = 'pending' and workflow_id is null;--> statement-breakpoint
CREATE INDEX "deliveries_retrying" ON "deliveries" USING btree ("endpoint_id") WHERE status = 'pending' and workflow_id is not null and next_attempt_at is not null;--> statement-breakpoint
CREATE INDEX "deliveries_replay" ON "deliveries" USING btree ("replay_id","status") WHERE replay_id is not null;--> statement-breakpoint
CREATE INDEX "deliveries_object" ON "deliveries" USING btree ("object_id","created_at","id");--> statement-breakpoint
CREATE INDEX "deliveries_endpoint_type" ON "deliveries" USING btree ("endpoint_id","event_type","created_at","id");--> statement-breakpoint
CREATE INDEX "deliveries_type" ON "deliveries" USING btree ("event_type","created_at","id");--> statement-breakpoint
CREATE INDEX "events_feed" ON "events" USING btree ("type","position","account_id","sequence");--> statement-breakpoint
CREATE INDEX "events_account_feed" ON "events" USING btree ("account_id","type","position","sequence");--> statement-breakpoint
CREATE INDEX "locations_pending_removal" ON "locations" USING btree ("account_id") WHERE pending_removal_since is not null;--> statement-breakpoint
CREATE INDEX "replays_created" ON "replays" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "replays_running" ON "replays" USING btree ("endpoint_id") WHERE status = 'running';--> statement-breakpoint
CREATE INDEX "deliveries_unclaimed" ON "deliveries" USING btree ("endpoint_id",(replay_id is not null),"id") WHERE status = 'pending' and workflow_id is null;--> statement-breakpoint
CREATE UNIQUE INDEX "events_sequence" ON "events" USING btree ("account_id","sequence") WHERE not test;--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_digest_unique" UNIQUE("digest");--> statement-breakpoint
ALTER TABLE "replays" ADD CONSTRAINT "replays_status" CHECK (status in ('running', 'completed', 'cancelled'));--> statement-breakpoint
-- the prefix of a bootstrap key showed a part of its digest
UPDATE "api_keys" SET "prefix" = 'boot_' || substr(md5(random()::text), 1, 12) WHERE "prefix" LIKE 'boot\_%';
