ALTER TABLE "drafts" DROP CONSTRAINT "drafts_state";--> statement-breakpoint
ALTER TABLE "sends" ALTER COLUMN "message_id" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "sends" ALTER COLUMN "storage_key" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "drafts" ADD COLUMN "held_by" text;--> statement-breakpoint
ALTER TABLE "drafts" ADD COLUMN "input_key" text;--> statement-breakpoint
ALTER TABLE "drafts" ADD COLUMN "metadata" text;--> statement-breakpoint
ALTER TABLE "drafts" ADD COLUMN "tracking_id" text;--> statement-breakpoint
ALTER TABLE "drafts" ADD COLUMN "tracking" jsonb;--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD COLUMN "reserved_id" text;--> statement-breakpoint
ALTER TABLE "sends" ADD COLUMN "tracking" jsonb;--> statement-breakpoint
ALTER TABLE "sends" ADD COLUMN "input_key" text;--> statement-breakpoint
ALTER TABLE "sends" ADD COLUMN "email" json;--> statement-breakpoint
CREATE INDEX "drafts_message_id" ON "drafts" USING btree ("account_id","message_id");--> statement-breakpoint
ALTER TABLE "drafts" ADD CONSTRAINT "drafts_state" CHECK (state in ('saving', 'active', 'superseded', 'sent', 'deleted', 'failed'));