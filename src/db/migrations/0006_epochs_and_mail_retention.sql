ALTER TABLE "accounts" ADD COLUMN "retention_days" smallint;--> statement-breakpoint
ALTER TABLE "events" ADD COLUMN "epoch" bigint;