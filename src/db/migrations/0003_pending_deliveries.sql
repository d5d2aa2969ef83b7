CREATE TABLE "pending_deliveries" (
	"delivery_id" text PRIMARY KEY NOT NULL,
	"endpoint_id" text NOT NULL,
	"object_id" text NOT NULL,
	"sequence" bigint NOT NULL,
	"line" smallint DEFAULT 1 NOT NULL,
	"due_at" timestamp with time zone NOT NULL,
	"waits_for" text,
	"attempted" boolean DEFAULT false NOT NULL,
	"runs" integer DEFAULT 0 NOT NULL,
	"workflow_id" text,
	"claimed_at" timestamp (3) with time zone,
	"started_at" timestamp (3) with time zone,
	"replay_id" text,
	CONSTRAINT "pending_deliveries_waits_for" CHECK (waits_for in ('retry', 'order'))
);
--> statement-breakpoint
DROP TRIGGER "deliveries_ended" ON "deliveries";--> statement-breakpoint
DROP TRIGGER "deliveries_deleted" ON "deliveries";--> statement-breakpoint
DROP FUNCTION "let_next_delivery_go"();--> statement-breakpoint
INSERT INTO "pending_deliveries" ("delivery_id", "endpoint_id", "object_id", "sequence", "line", "due_at", "waits_for",
	"attempted", "runs", "workflow_id", "claimed_at", "started_at", "replay_id")
SELECT id, endpoint_id, object_id, sequence, CASE WHEN forced THEN 0 WHEN replay_id IS NULL THEN 1 ELSE 2 END,
	coalesce(next_attempt_at, created_at), CASE WHEN next_attempt_at IS NOT NULL THEN 'retry' END,
	attempts_count > schedule_from, runs, workflow_id, claimed_at, started_at, replay_id
FROM "deliveries" WHERE status = 'pending';--> statement-breakpoint
UPDATE "deliveries" SET workflow_id = last_workflow_id
WHERE workflow_id IS NULL AND last_workflow_id IS NOT NULL;--> statement-breakpoint
DROP INDEX "deliveries_unclaimed";--> statement-breakpoint
DROP INDEX "deliveries_held";--> statement-breakpoint
DROP INDEX "deliveries_order";--> statement-breakpoint
DROP INDEX "deliveries_under_way";--> statement-breakpoint
DROP INDEX "deliveries_run";--> statement-breakpoint
DROP INDEX "deliveries_forced";--> statement-breakpoint
DROP INDEX "deliveries_retrying";--> statement-breakpoint
DROP INDEX "deliveries_unstarted";--> statement-breakpoint
DROP INDEX "deliveries_replay";--> statement-breakpoint
CREATE INDEX "pending_deliveries_due" ON "pending_deliveries" USING btree ("endpoint_id","line","due_at","delivery_id") WHERE workflow_id is null;--> statement-breakpoint
CREATE INDEX "pending_deliveries_order" ON "pending_deliveries" USING btree ("endpoint_id","object_id","sequence");--> statement-breakpoint
CREATE INDEX "pending_deliveries_run" ON "pending_deliveries" USING btree ("endpoint_id","workflow_id") WHERE workflow_id is not null;--> statement-breakpoint
CREATE INDEX "pending_deliveries_replay" ON "pending_deliveries" USING btree ("replay_id") WHERE replay_id is not null;--> statement-breakpoint
CREATE INDEX "deliveries_replay" ON "deliveries" USING btree ("replay_id","status") WHERE replay_id is not null;--> statement-breakpoint
ALTER TABLE "deliveries" DROP COLUMN "next_attempt_at";--> statement-breakpoint
ALTER TABLE "deliveries" DROP COLUMN "forced";--> statement-breakpoint
ALTER TABLE "deliveries" DROP COLUMN "held";--> statement-breakpoint
ALTER TABLE "deliveries" DROP COLUMN "last_workflow_id";--> statement-breakpoint
ALTER TABLE "deliveries" DROP COLUMN "claimed_at";--> statement-breakpoint
ALTER TABLE "deliveries" DROP COLUMN "started_at";