ALTER TABLE "drafts" ADD COLUMN "forwarded_id" text;--> statement-breakpoint
ALTER TABLE "sends" ADD COLUMN "forwarded_id" text;