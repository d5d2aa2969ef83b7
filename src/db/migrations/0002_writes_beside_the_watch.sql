ALTER TABLE "folders" ADD COLUMN "writes" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "placements" ADD COLUMN "leaving_since" timestamp (3) with time zone;